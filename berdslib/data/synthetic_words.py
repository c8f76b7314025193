"""The sentences of the synthetic release, written for this project in German, French and Italian of Switzerland.

Each language is one text. A line that starts with "#" names a bank of sentences, and each line below it is one of them:

- ``[a|b]`` stands for one of several wordings,
- ``{slot}`` for words of the issue, see :func:`berdslib.data.synthetic_topics.forms`,
- ``RE:`` in front says that the sentence only suits a measure that restricts (R), expands (E) or loosens (L).

The three languages have the same banks. Nothing in the first person says whether a woman or a man speaks, apart from
the bank of their own ("gender").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from berdslib.data.synthetic_topics import EXPAND, LOOSEN, RESTRICT


class Line(NamedTuple):
    """A sentence with open places, and the letters of the measures that it suits."""

    text: str
    suits: str = RESTRICT + EXPAND + LOOSEN


@cache
def banks(language: str) -> Mapping[str, tuple[Line, ...]]:
    """Return the banks of sentences of "de", "fr" or "it", by name.

    >>> banks("it")["closing plain CON"][0].text
    'Quindi no.'
    """
    found: dict[str, tuple[Line, ...]] = {}
    name = ""
    for line in _TEXTS[language].strip().splitlines():
        if line.startswith("#"):
            name = line.lstrip("# ")
            found[name] = ()
        elif line:
            suits, text = re.fullmatch(r"(?:([REL]+): )?(.+)", line).groups()  # type: ignore[union-attr]
            found[name] += (Line(text, suits) if suits else Line(text),)
    return found


def swaps(language: str) -> Mapping[str, str]:
    """Return word → another for it that fits wherever it stands: how an edited copy differs."""
    return dict(line.text.split(" -> ") for line in banks(language)["swap"])


_TEXTS = {
    "de": """
# opening plain PRO
Ja, das ist [überfällig|dringend nötig|einfach richtig].
Klar bin ich dafür.
Endlich [tut sich etwas|packt es jemand an].
{inf}? Ja, [unbedingt|sofort|lieber heute als morgen].
Bei {dat} [muss|sollte] endlich etwas gehen.
Das mit den {dat} [kann so nicht weitergehen|stört mich schon lange].
Ich bin für {noun}.
Man [sollte|muss] {inf}, ganz einfach.
# opening plain CON
Nein, das [bringt nichts|geht zu weit|ist der falsche Weg].
Davon halte ich [nichts|wenig|gar nichts].
Finger weg davon.
{inf}? Nein, [sicher nicht|danke|das geht zu weit].
Bei {dat} [läuft es gut genug|sehe ich kein Problem|muss man nichts ändern].
Um {o} wird [viel zu viel|unnötig] Lärm gemacht.
Ich bin gegen {noun}.
Man muss nicht gleich {inf}.
# opening middle PRO
Ich [unterstütze|befürworte] [den Vorschlag|diese Massnahme].
Die Richtung stimmt [für mich|aus meiner Sicht].
Die Diskussion über {o} [wird zu Recht geführt|war nötig].
Im Umgang mit {dat} [braucht es einen neuen Anlauf|sind wir zu lange stehen geblieben].
Ich finde es richtig, {zu}.
{noun} ist ein [sinnvoller|guter] Schritt.
Es ist [höchste Zeit|an der Zeit], {zu}.
Für {noun} sprechen [mehrere|gute] Gründe.
# opening middle CON
Ich lehne [den Vorschlag|diese Massnahme] ab.
Das Anliegen ist gut gemeint, [löst das Problem aber nicht|die Umsetzung aber schlecht].
Bei {dat} reichen die heutigen Regeln [aus|völlig aus].
Die Diskussion über {o} lenkt von [wichtigeren Fragen|den eigentlichen Problemen] ab.
Ich halte es für falsch, {zu}.
{noun} [schiesst über das Ziel hinaus|geht mir zu weit|löst das Problem nicht].
Es ist nicht nötig, {zu}.
Gegen {noun} sprechen [mehrere|gute] Gründe.
# opening academic PRO
Nach Abwägung der verfügbaren [Studien|Befunde|Daten] überwiegen die Vorteile [deutlich|insgesamt].
Grundsätzlich erachte ich das Vorhaben als [verhältnismässig|zielführend|sachgerecht].
Der geltende Rahmen wird der Bedeutung von {dat} nicht mehr gerecht, weshalb ich die Vorlage unterstütze.
Die Erfahrungen im Umgang mit {dat} legen nahe, dass der Status quo [ineffizient|nicht haltbar] ist.
Aus [volkswirtschaftlicher|gesellschaftlicher|institutioneller] Sicht erscheint es folgerichtig, {zu}.
Die [verfügbare Evidenz|Fachliteratur] spricht insgesamt eher für {noun}.
Wer die langfristigen Folgen berücksichtigt, wird nicht umhinkommen, {zu}.
# opening academic CON
Der erwartete Nutzen steht in keinem angemessenen Verhältnis zur [Tiefe|Komplexität] des Eingriffs.
Grundsätzlich erachte ich das Vorhaben als [unverhältnismässig|wenig zielführend|nicht sachgerecht].
Die Komplexität der Fragen rund um {o} wird [unterschätzt|stark vereinfacht], weshalb ich die Vorlage ablehne.
Die Erfahrungen im Umgang mit {dat} lassen [derzeit keinen|keinen] Handlungsbedarf erkennen.
Aus [volkswirtschaftlicher|gesellschaftlicher|institutioneller] Sicht überzeugt es mich nicht, {zu}.
Die [verfügbare Evidenz|Fachliteratur] rechtfertigt {noun} [derzeit nicht|kaum].
Es bestehen mildere Mittel, die denselben Zweck erfüllen, ohne gleich {zu}.
# ground open foreign policy PRO
[Unsere Nachbarländer|Andere europäische Länder] haben damit gute Erfahrungen gemacht.
So bleiben wir für [unsere Partner in Europa|das Ausland] ein verlässliches Gegenüber.
Probleme, die über die Grenze reichen, lösen wir nur [gemeinsam mit Europa|zusammen mit anderen Staaten].
Bei {dat} sollten wir uns [mit der EU|international] abstimmen, und das ist ein Anfang.
Wer international mitreden will, muss auch [zu Hause|im eigenen Land] vorangehen.
# ground open foreign policy CON
Ein Alleingang der Schweiz bringt hier [wenig|nichts]; es braucht eine Lösung mit [Europa|den Nachbarstaaten].
Damit [gefährden|belasten] wir [unsere Beziehungen zur EU|die Verträge mit unseren Nachbarn].
Bei {dat} braucht es internationale Abkommen statt nationaler [Sonderwege|Sonderregeln].
Ein [kleines, offenes|so stark vernetztes] Land darf sich nicht [abschotten|isolieren].
Im Ausland würde das [niemand|kaum jemand] verstehen, und unser Ruf als offener Partner würde leiden.
# ground liberal economic policy PRO
Das schafft [gleich lange Spiesse|verlässliche Bedingungen] für [alle Betriebe|unsere KMU].
Die Unternehmen erhalten Planungssicherheit und können [investieren|neue Stellen schaffen].
Der Markt [wird dadurch fairer|funktioniert dann besser], und neue Ideen setzen sich schneller durch.
RE: Wer hier früh umstellt, [verschafft unserer Wirtschaft einen Vorsprung|stärkt den Wirtschaftsstandort].
L: Weniger [Vorschriften|Bürokratie] bedeutet mehr [Wettbewerb|Innovation].
L: Bei {dat} weiss [der Markt|die Kundschaft] besser als jede Behörde, was es braucht.
# ground liberal economic policy CON
Das [schwächt den Wirtschaftsstandort|verzerrt den Wettbewerb] und gefährdet [Arbeitsplätze|Investitionen].
Unsere [Firmen|Betriebe] brauchen Planungssicherheit und keine [Experimente|Schnellschüsse].
RE: Am Ende fehlt dieses Geld den Betrieben, die [Löhne bezahlen|Lehrstellen anbieten].
RE: Das bedeutet für [die KMU|das Gewerbe] vor allem [mehr Bürokratie|neue Kosten].
RE: Der Staat soll nicht in den [Markt|Wettbewerb] eingreifen.
RE: Bei {dat} braucht es [Wettbewerb und Innovation|unternehmerische Freiheit] statt [Vorschriften|Lenkung].
# ground restrictive financial policy PRO
Auf lange Sicht [entlastet|schont] das [die Bundeskasse|den Finanzhaushalt].
Jeder [Franken|Steuerfranken] muss dort eingesetzt werden, wo er am meisten bewirkt, und das ist hier der Fall.
Wer heute [handelt|vorsorgt], [vermeidet|verhindert] morgen [Schulden|neue Defizite].
Bei {dat} müssen [Aufwand und Ertrag|Kosten und Nutzen] wieder stimmen.
L: So bleibt das Budget im Gleichgewicht, und die Schuldenbremse wird eingehalten.
# ground restrictive financial policy CON
EL: [In der Bundeskasse fehlt dafür das Geld|Das kann sich der Bund nicht leisten], und neue Schulden will ich nicht.
EL: Bevor man [Neues beschliesst|Geld verteilt], muss das Budget im Gleichgewicht sein.
Die Kosten [sind nicht absehbar|laufen aus dem Ruder], und am Schluss zahlen die Steuerpflichtigen.
Die Schuldenbremse gilt auch bei {dat}.
RE: Der Staat muss sparen, statt [immer neue Aufgaben zu übernehmen|neue Löcher in die Kasse zu reissen].
# ground law & order PRO
RE: Es braucht klare Regeln, die [die Polizei auch durchsetzen kann|für alle gelten].
Damit erhöhen wir die Sicherheit [auf den Strassen|im öffentlichen Raum|im Alltag].
R: Wer sich nicht an die Regeln hält, muss [die Folgen spüren|mit einer Strafe rechnen].
RE: Bei {dat} hat man [Missbrauch|Verstösse] zu lange [geduldet|hingenommen].
Ordnung und Sicherheit kommen nicht von allein.
# ground law & order CON
R: Regeln, die [niemand kontrolliert|die Polizei nicht durchsetzen kann], sind wertlos.
EL: Damit öffnen wir [dem Missbrauch|Betrügern] Tür und Tor.
Die Polizei hat Wichtigeres zu tun, als sich auch noch um {o} zu kümmern.
Für die [öffentliche|innere] Sicherheit ist damit nichts gewonnen.
Statt neuer [Ideen|Programme] brauchen wir härtere Strafen und eine [schnellere|konsequentere] Justiz.
# ground restrictive migration policy PRO
Das Land wächst durch die Zuwanderung zu schnell, darum müssen wir [mit dem Platz haushalten|jetzt handeln].
Wenn jedes Jahr Zehntausende zuwandern, stossen [Strassen und Schulen|Züge und Spitäler] an ihre Grenzen.
Zuerst müssen wir für die Menschen sorgen, die [schon hier leben|hier aufgewachsen sind].
Auch bei {dat} spüren wir [die Folgen der Zuwanderung|den Druck der wachsenden Bevölkerung].
Wir müssen selbst bestimmen können, wie viele Menschen zuwandern, und das gehört dazu.
# ground restrictive migration policy CON
Solange die Zuwanderung nicht [begrenzt|gesteuert] wird, löst das [kein einziges Problem|gar nichts].
EL: Das würde nur noch mehr Menschen [anlocken|ins Land holen], die [Wohnungen|Platz] brauchen.
Die eigentliche Ursache ist das [ungebremste|starke] Bevölkerungswachstum, und davon redet [niemand|kaum jemand].
Statt über {o} zu streiten, sollten wir [die Zuwanderung bremsen|unsere Grenzen besser schützen].
Wir haben nicht genug Platz für immer mehr Menschen, und daran ändert das nichts.
# ground expanded environmental protection PRO
RE: Damit schützen wir [Boden, Wasser und Luft|Klima und Natur] für [die nächsten Generationen|alle nach uns].
Die Klimakrise wartet nicht, bis wir [uns einig sind|fertig diskutiert haben].
RE: Weniger [Abgase|CO2], weniger Lärm und mehr [Artenvielfalt|Grünflächen] tun allen gut.
Auch bei {dat} müssen wir [Energie sparen|an die Umwelt denken|die Klimaziele ernst nehmen].
Wir haben nur diesen einen Planeten und sollten [endlich|auch] danach handeln.
# ground expanded environmental protection CON
Dem Klima [bringt|nützt] das wenig; es braucht [verbindliche Ziele|einen echten Umbau] statt [Symbolpolitik|Worte].
EL: Die [Natur|Umwelt|Artenvielfalt] zahlt dafür einen zu hohen Preis.
EL: Das [verbraucht Boden und Energie|führt zu mehr Verkehr und Abgasen], und das können wir uns nicht mehr leisten.
EL: Bei {dat} [bleibt der Umweltschutz|bleiben Klima und Natur] auf der Strecke.
EL: Für [die Klimaziele|den Naturschutz] ist das ein Rückschritt.
R: Der Natur ist mit [Einzelmassnahmen|halben Sachen] nicht geholfen.
R: Wer die Umwelt schützen will, muss bei den grossen Verursachern ansetzen.
# ground expanded welfare state PRO
Davon profitieren vor allem [Menschen mit kleinem Einkommen|jene, die wenig haben].
Niemand soll aus finanziellen Gründen [zurückbleiben|verzichten müssen].
Das [entlastet|stärkt] Familien, [Alleinerziehende|Kranke] und alle, die auf Unterstützung angewiesen sind.
Ein starker Sozialstaat [zeigt|beweist] sich gerade bei {dat}.
Wer [arm|krank|arbeitslos] ist, braucht Hilfe und keine [schönen Worte|Vorwürfe].
# ground expanded welfare state CON
RL: Das trifft [wieder einmal|vor allem] jene mit [dem kleinsten Lohn|kleinem Einkommen].
RL: Wer wenig verdient, [bezahlt am Schluss die Rechnung|wird damit noch mehr belastet].
Statt über {o} sollten wir über [Armut|bessere Sozialleistungen|bezahlbare Wohnungen] reden.
Soziale Sicherheit [geht vor|ist wichtiger], und die wird hier [geschwächt|vergessen].
Die Schwächsten [haben nichts davon|gehen dabei leer aus].
# ground liberal society PRO
Eine [offene|moderne] Gesellschaft lebt davon, dass sie sich weiterentwickelt.
EL: Alle sollen die gleichen Chancen haben, egal [woher sie kommen|wie sie leben|wen sie lieben].
EL: Bei {dat} geht es auch um [Gleichstellung|Selbstbestimmung|die Vielfalt unserer Gesellschaft].
EL: Das [stärkt|schützt] die Rechte [von Minderheiten|jener, auf die sonst niemand hört].
L: So können die Menschen selbst [entscheiden|bestimmen], wie sie leben wollen.
R: Freiheit heisst nicht, dass man [anderen schaden|auf Kosten anderer leben] darf.
R: Auch eine freie Gesellschaft braucht Regeln, die [Schwächere schützen|für alle gerecht sind].
# ground liberal society CON
R: Das [schränkt die persönliche Freiheit ein|passt nicht zu einer offenen Gesellschaft].
Bei {dat} geht es um [Selbstbestimmung|Toleranz] und nicht um Moral.
[Minderheiten|Andere Lebensformen] würden damit [ausgegrenzt|übergangen].
Wir leben in einer [vielfältigen|modernen] Gesellschaft, und dieser Vorschlag stammt aus einer anderen Zeit.
R: Der Staat soll [mündigen|erwachsenen] Menschen nicht vorschreiben, wie sie leben sollen.
# attitude left PRO
Das ist eine Frage der [Gerechtigkeit|Solidarität].
Die Reichen und die grossen Konzerne sollen ihren [gerechten|fairen] Anteil leisten.
Menschen sind wichtiger als [Profite|Gewinne].
Wir brauchen eine [solidarische|gerechtere] Gesellschaft, in der niemand unter die Räder kommt.
Die [Angestellten|Arbeitenden] haben lange genug auf mehr Gerechtigkeit gewartet.
# attitude left CON
Davon profitieren wieder nur [die Reichen|die Konzerne|die Aktionäre].
Das ist [unsolidarisch|ungerecht] und vertieft den Graben zwischen Arm und Reich.
Die [Profite|Gewinne] einiger weniger dürfen nicht wichtiger sein als das Gemeinwohl.
Solidarität und Gerechtigkeit sehen anders aus.
# attitude centre PRO
Das ist ein [vernünftiger|tragfähiger] Kompromiss, hinter dem eine Mehrheit stehen kann.
Mit Augenmass umgesetzt, gewinnen [alle Seiten|beide Seiten].
Pragmatische Lösungen sind mir lieber als [Ideologie|Parolen von links und rechts].
Wir sollten aufeinander zugehen und [Brücken bauen|im Dialog bleiben].
# attitude centre CON
Mir fehlt hier [das Augenmass|der Kompromiss].
Extreme Forderungen von links und rechts bringen uns nicht weiter.
Ein pragmatischer Mittelweg [wäre besser|hätte mehr Rückhalt].
Mit etwas Dialog finden wir [einen besseren Kompromiss|eine Lösung, die alle mittragen].
# attitude liberal PRO
L: Das passt zu einem [schlanken|liberalen] Staat und lässt Raum für [Eigenverantwortung|Eigeninitiative].
Wer Leistung bringt und Verantwortung übernimmt, soll dafür belohnt werden.
Kluge Anreize wirken besser als [Zwang|Umverteilung], und die werden hier gesetzt.
L: Das ist vernünftig, weil es auf [Freiheit|Eigenverantwortung] setzt.
RE: Ein liberaler Staat schafft gute Rahmenbedingungen, und dann hält er sich zurück.
# attitude liberal CON
RE: Das [erstickt|bremst] Eigeninitiative und Leistung.
RE: Ein [schlanker|liberaler] Staat beschränkt sich auf das [Nötige|Wesentliche].
RE: Ich setze auf [Eigenverantwortung|Freiheit] statt auf [Zwang|Bevormundung].
RE: Noch mehr Staat [ist keine Lösung|brauchen wir nicht].
L: Freiheit braucht faire [Spielregeln|Regeln], und die fehlen hier.
L: Zur Freiheit gehört Verantwortung, und die [kommt hier zu kurz|vermisse ich hier].
# attitude conservative PRO
So [bewahren|erhalten] wir, was unser Land ausmacht.
[Heimat und Tradition|Unsere Werte und Traditionen] verdienen [Schutz|Respekt].
Das entspricht dem gesunden Menschenverstand [und unseren Werten|der Bevölkerung].
Die Unabhängigkeit unseres Landes [geht vor|muss gewahrt bleiben].
Die Familie ist und bleibt das Fundament unseres Landes.
# attitude conservative CON
Was sich [über Generationen|seit Jahrzehnten] bewährt hat, soll man nicht ohne Not [aufgeben|über Bord werfen].
Das ist der nächste Schritt weg von unseren [Traditionen|Werten].
Wir lassen uns von aussen nicht vorschreiben, wie wir in unserem Land zu leben haben.
Der [gesunde Menschenverstand|Respekt vor der Heimat] spricht dagegen.
# age 18-34
Meine Generation wird noch [in fünfzig Jahren|jahrzehntelang] mit den Folgen leben.
In meiner WG [reden alle davon|ist das ein Dauerthema].
Wer wie ich gerade ins Berufsleben startet, [merkt das jeden Tag|denkt an die nächsten Jahrzehnte].
Uns Junge fragt man [sonst selten|viel zu selten].
Auf dem Handy sehe ich [jeden Tag|ständig], wie sehr das die Jungen beschäftigt.
# age 35-49
Zwischen Job und [Kinderbetreuung|Elternabend] spürt man solche Entscheide sofort.
Ich denke dabei an die Kinder, die jetzt zur Schule gehen.
Mitten im Berufsleben merke ich, [wie knapp die Zeit ist|was im Alltag funktioniert].
Mit [Hypothek|Miete], Krippe und Krankenkasse rechnet man jeden Monat genau.
# age 50-64
Nach [dreissig|über dreissig] Jahren im Beruf weiss ich, [wovon ich rede|wie so etwas läuft].
Die eigenen Kinder sind [inzwischen erwachsen|ausgezogen], und man sieht [manches gelassener|jetzt beide Seiten].
In den [achtziger|neunziger] Jahren haben wir [das schon einmal erlebt|ähnliche Fehler gemacht].
Ein paar Jahre vor der Pensionierung überlegt man sich das [zweimal|genau].
# age 65+
Seit ich pensioniert bin, [schaue ich genauer hin|sehe ich das mit anderen Augen].
In meinem langen Leben habe ich [viele solche Vorlagen|manche Reform] kommen und gehen sehen.
Ich denke dabei an meine [Enkelkinder|Enkelinnen und Enkel].
Früher, als ich jung war, [war das kein Thema|hat man darüber nicht geredet].
Mit der AHV muss man [rechnen|haushalten] können.
# residence countryside
Bei uns im Dorf [sieht man das jeden Tag|spricht man oft darüber|ist das ein Thema am Stammtisch].
Auf dem Hof [denkt man praktisch|merkt man schnell, was funktioniert].
Im Tal sind die Wege lang, das darf man nicht vergessen.
Zwischen [Wald und Wiesen|Stall und Feld] sieht die Welt anders aus.
Unsere kleine Gemeinde [kennt das Problem|weiss, was das heisst].
# residence city
In unserem Quartier [erlebt man das jeden Tag|reden alle darüber].
Wer in der Stadt wohnt, [merkt das schon im Tram|sieht das an jeder Ecke].
Zwischen Hauptbahnhof und Altstadt spürt man das besonders.
Im [Wohnblock|Hochhaus] leben viele Menschen Tür an Tür, da merkt man das sofort.
In der Agglomeration wächst alles zusammen, und das macht die Frage dringender.
# civil_status single
Wer allein wohnt, [bezahlt alles selbst|trägt alle Kosten selbst].
Als Single wird man in solchen Debatten gern vergessen.
# civil_status married
In unserer Ehe [haben wir lange darüber geredet|sind wir uns darin einig].
Am Familientisch haben wir oft darüber geredet.
# civil_status divorced
Nach einer Scheidung [lernt man, genau zu rechnen|sieht man vieles anders].
Mit zwei Haushalten statt einem rechnet man genau.
# civil_status widowed
Seit ich allein zurückgeblieben bin, [sehe ich das anders|achte ich mehr darauf].
Wer seinen liebsten Menschen verloren hat, sieht solche Fragen anders.
# civil_status registered partnership
In unserer eingetragenen Partnerschaft [haben wir lange darüber geredet|sind wir uns darin einig].
Für eingetragene Paare [ist das nicht selbstverständlich|stellt sich die Frage etwas anders].
# gender female
Als [Bürgerin|Stimmbürgerin] sage ich das mit Überzeugung.
Als Frau [wünsche ich mir eine ehrliche Debatte|habe ich mir das gut überlegt].
# gender male
Als [Bürger|Stimmbürger] sage ich das mit Überzeugung.
Als Mann [wünsche ich mir eine ehrliche Debatte|habe ich mir das gut überlegt].
# gender other
Als nonbinäre Person [wünsche ich mir eine ehrliche Debatte|habe ich mir das gut überlegt].
# denomination believer
Auch mein Glaube [sagt mir das|bestärkt mich darin].
# denomination none
Dafür braucht es keine Religion, nur [Vernunft|gesunden Verstand].
# filler
Über {o} wird [seit Jahren|schon lange] gestritten.
Das Thema [beschäftigt viele|ist nicht neu].
Das zeigt auch ein Blick in [den Alltag|die Zeitung].
Man sollte [ehrlich|offen] darüber reden.
# closing plain PRO
Darum Ja.
Packen wir es an.
Also los.
# closing plain CON
Darum Nein.
Lassen wir das.
So nicht.
# closing middle PRO
Deshalb [stimme ich zu|sage ich Ja].
Das überzeugt mich.
# closing middle CON
Deshalb [stimme ich dagegen|sage ich Nein].
Das überzeugt mich nicht.
# closing academic PRO
In der Gesamtbetrachtung [ist dem zuzustimmen|überwiegt der Nutzen].
Entscheidend wird eine [sorgfältige|wissenschaftlich begleitete] Umsetzung sein.
# closing academic CON
In der Gesamtbetrachtung [ist davon abzuraten|überwiegen die Nachteile].
Vorzuziehen wäre eine [differenzierte|evidenzbasierte] Lösung.
# swap
Vorschlag -> Vorstoss
Massnahme -> Regelung
darum -> deshalb
Darum -> Deshalb
Deshalb -> Darum
vor allem -> hauptsächlich
jeden Tag -> täglich
sofort -> umgehend
falsch -> verkehrt
richtig -> sinnvoll
schnell -> rasch
Betriebe -> Firmen
Arbeitsplätze -> Stellen
Kosten -> Ausgaben
Regeln -> Vorschriften
niemand -> kein Mensch
endlich -> nun endlich
müssen wir -> sollten wir
brauchen wir -> benötigen wir
braucht es -> brauchen wir
""",
    "fr": """
# opening plain PRO
Oui, [c'est urgent|il était temps|c'est une évidence].
[Évidemment|Bien sûr] que je suis pour.
Enfin [quelque chose bouge|on s'y met].
{inf} ? Oui, [sans hésiter|tout de suite|et vite].
Pour {les}, il faut que ça [change|bouge].
L'histoire {des} [a assez duré|me dérange depuis longtemps].
Je suis pour {noun}.
Il faut {inf}, [point final|tout simplement].
# opening plain CON
Non, [ça ne sert à rien|ça va trop loin|c'est une mauvaise idée].
Je n'y crois [pas|pas du tout].
Laissons les choses comme elles sont.
{inf} ? Non, [merci|certainement pas|ça va trop loin].
Pour {les}, [ça marche assez bien|je ne vois pas de problème].
On fait [trop de|beaucoup de] bruit pour {les}.
Je suis contre {noun}.
Pas besoin {dinf}.
# opening middle PRO
Je soutiens [cette mesure|cette proposition].
[La proposition|Le projet] va dans le bon sens.
Le débat sur {les} [est nécessaire|tombe à point].
S'agissant {des}, [nous avons trop attendu|il faut un nouvel élan].
Il est [juste|raisonnable] {dinf}.
{noun} [va dans le bon sens|serait un pas utile].
Il est [temps|grand temps] {dinf}.
[Plusieurs|De bonnes] raisons plaident pour {noun}.
# opening middle CON
Je rejette [cette mesure|cette proposition].
L'intention est bonne, mais cela ne règle [rien|pas le problème].
Pour {les}, les règles actuelles [suffisent|me paraissent suffisantes].
Le débat sur {les} nous détourne [des vrais problèmes|de questions plus importantes].
Ce serait une erreur {dinf}.
{noun} [manque sa cible|va trop loin à mes yeux|ne règle pas le problème].
Il n'est pas nécessaire {dinf}.
[Plusieurs|De bonnes] raisons plaident contre {noun}.
# opening academic PRO
Après examen des [données|études] disponibles, les avantages l'emportent [nettement|globalement].
Sur le principe, je juge le projet [proportionné|cohérent|adéquat].
Le cadre en vigueur ne répond plus aux enjeux liés {aux}, raison pour laquelle je soutiens l'objet.
Les expériences faites au sujet {des} suggèrent que le statu quo [est inefficace|n'est pas tenable].
D'un point de vue [économique|social|institutionnel], il paraît cohérent {dinf}.
Les travaux [scientifiques|récents] à disposition plaident plutôt pour {noun}.
Compte tenu des effets à long terme, il devient difficile de ne pas {inf}.
# opening academic CON
Le bénéfice attendu n'est pas proportionné à la [portée|complexité] de l'intervention.
Sur le principe, je juge le projet [disproportionné|peu cohérent|inadéquat].
La complexité des questions liées {aux} est [sous-estimée|simplifiée à l'excès], et je rejette donc l'objet.
Les expériences faites au sujet {des} ne révèlent aucun besoin d'agir.
D'un point de vue [économique|social|institutionnel], il ne paraît pas pertinent {dinf}.
Les travaux [scientifiques|récents] à disposition ne justifient guère {noun}.
Il existe des moyens moins lourds d'atteindre le même but sans {inf}.
# ground open foreign policy PRO
[Nos voisins|D'autres pays européens] en font déjà une bonne expérience.
Nous restons ainsi un partenaire fiable pour [l'Europe|nos voisins].
Les problèmes qui dépassent nos frontières se règlent [avec l'Europe|avec les autres États].
Pour {les}, il faut nous coordonner avec [l'Union européenne|nos voisins], et c'est un début.
Qui veut être entendu à l'étranger doit [commencer|montrer l'exemple] chez soi.
# ground open foreign policy CON
Faire cavalier seul ne sert à rien ; il faut une solution avec [l'Europe|les pays voisins].
Nous mettrions en danger [nos relations avec l'Union européenne|les accords avec nos voisins].
Pour {les}, il faut des accords internationaux, pas des [règles à part|exceptions nationales].
Un [petit pays ouvert|pays si lié au monde] ne doit pas [s'isoler|se replier sur lui-même].
À l'étranger, personne ne comprendrait, et notre image de partenaire ouvert en souffrirait.
# ground liberal economic policy PRO
Cela crée des conditions [équitables|fiables] pour [toutes les entreprises|nos PME].
Les entreprises y gagnent en sécurité et peuvent [investir|créer des emplois].
Le marché [devient plus juste|fonctionne mieux], et les bonnes idées s'imposent plus vite.
RE: Changer tôt, c'est donner une longueur d'avance à notre [économie|place économique].
L: Moins de [bureaucratie|paperasse], c'est plus de [concurrence|place pour l'innovation].
L: Pour {les}, le marché sait mieux que [l'administration|l'État] ce dont on a besoin.
# ground liberal economic policy CON
Cela [affaiblit notre place économique|fausse la concurrence] et menace [des emplois|des investissements].
Nos entreprises ont besoin de [stabilité|prévisibilité], pas de [tâtonnements|décisions hâtives].
RE: Au bout du compte, cet argent manquera aux entreprises qui [paient les salaires|forment des apprentis].
RE: Pour [les PME|l'artisanat], cela signifie surtout [plus de paperasse|de nouveaux coûts].
RE: L'État n'a pas à [se mêler du marché|fausser la concurrence].
RE: Pour {les}, il faut de la concurrence et de l'innovation, pas [des prescriptions|une économie dirigée].
# ground restrictive financial policy PRO
À long terme, cela [soulage|ménage] [les caisses publiques|le budget].
Chaque franc doit aller là où il est [le plus utile|vraiment efficace], et c'est le cas ici.
Agir aujourd'hui, c'est éviter [des dettes|des déficits] demain.
Pour {les}, [les coûts et l'utilité|les dépenses et les résultats] doivent de nouveau s'équilibrer.
L: Le budget reste ainsi à l'équilibre, et le frein à l'endettement est respecté.
# ground restrictive financial policy CON
EL: L'argent manque [dans les caisses|à la Confédération], et je ne veux pas de nouvelles dettes.
EL: Avant de [distribuer de l'argent|décider de nouvelles dépenses], il faut un budget à l'équilibre.
Les coûts [sont imprévisibles|vont exploser], et les contribuables paieront la facture.
Le frein à l'endettement vaut aussi pour {les}.
RE: L'État doit [faire des économies|réduire ses dépenses] au lieu de se charger de nouvelles tâches.
# ground law & order PRO
RE: Il faut des règles claires [que la police puisse faire respecter|qui valent pour tout le monde].
Cela renforce la sécurité [dans la rue|dans l'espace public|au quotidien].
R: Qui ne respecte pas les règles doit [en sentir les conséquences|s'attendre à une sanction].
RE: Pour {les}, on a trop longtemps toléré [les abus|les infractions].
L'ordre et la sécurité ne viennent pas tout seuls.
# ground law & order CON
R: Une règle que [personne ne contrôle|la police ne peut pas faire respecter] ne vaut rien.
EL: C'est la porte ouverte aux [abus|fraudes].
La police a mieux à faire que de s'occuper {des}.
La sécurité [publique|intérieure] n'y gagne rien.
Il faut plutôt des peines plus sévères et une justice plus [rapide|ferme].
# ground restrictive migration policy PRO
Avec l'immigration, le pays grandit trop vite, et il faut [ménager la place qui reste|agir maintenant].
Quand des dizaines de milliers de personnes immigrent chaque année, [nos écoles|nos routes] sont vite pleines.
Il faut d'abord penser à celles et ceux qui [vivent déjà ici|ont grandi ici].
Pour {les} aussi, on sent [les effets de l'immigration|la pression démographique].
Nous devons pouvoir décider nous-mêmes combien de personnes immigrent, et cela en fait partie.
# ground restrictive migration policy CON
Tant que l'immigration n'est pas [limitée|maîtrisée], cela ne règle [rien|aucun problème].
EL: Cela ne ferait qu'attirer encore plus de monde, avec des besoins de [logements|place].
La vraie cause, c'est la croissance [rapide|incontrôlée] de la population, et personne n'en parle.
Au lieu de se disputer sur {les}, on devrait [freiner l'immigration|mieux protéger nos frontières].
Nous n'avons pas assez de place pour toujours plus de monde, et cela n'y change rien.
# ground expanded environmental protection PRO
RE: Nous protégeons ainsi [le sol, l'eau et l'air|le climat et la nature] pour les générations futures.
La crise climatique n'attend pas [que tout le monde soit d'accord|la fin de nos débats].
RE: Moins de [pollution|CO2], moins de bruit et plus de [biodiversité|verdure], tout le monde y gagne.
Pour {les} aussi, il faut [économiser l'énergie|penser à l'environnement|viser les objectifs climatiques].
Nous n'avons qu'une planète, il est temps [d'en tenir compte|d'agir en conséquence].
# ground expanded environmental protection CON
Le climat n'y gagne rien ; il faut [des objectifs contraignants|une vraie transition], pas [des symboles|des mots].
EL: [La nature|L'environnement|La biodiversité] paierait un prix trop élevé.
EL: Cela [consomme du sol et de l'énergie|amène du trafic et de la pollution], et nous ne pouvons plus nous l'offrir.
EL: Pour {les}, on oublie [l'environnement|le climat et la nature].
EL: C'est un recul pour [les objectifs climatiques|la protection de la nature].
R: La nature n'a rien à gagner à [des demi-mesures|des mesures isolées].
R: Qui veut protéger l'environnement doit viser les gros pollueurs.
# ground expanded welfare state PRO
Cela profite surtout [aux petits revenus|à celles et ceux qui ont peu].
Personne ne doit [rester en arrière|renoncer à l'essentiel] faute d'argent.
Cela [soulage|aide] les familles, les [malades|parents seuls] et toutes les personnes qui ont besoin de soutien.
Pour {les} aussi, l'État social doit [jouer son rôle|tenir ses promesses].
Face à la pauvreté et [à la maladie|au chômage], il faut des aides, pas des leçons de morale.
# ground expanded welfare state CON
RL: Cela touche [encore une fois|surtout] les personnes qui ont [les plus bas salaires|un petit revenu].
RL: Celles et ceux qui gagnent peu [paieront la facture|en souffriront le plus].
Au lieu de parler {des}, parlons de [la pauvreté|la protection sociale|logements abordables].
La sécurité sociale passe avant, et elle est ici [affaiblie|oubliée].
Les plus fragiles [n'y gagnent rien|repartent les mains vides].
# ground liberal society PRO
Une société [ouverte|moderne] doit oser évoluer.
EL: Tout le monde mérite les mêmes chances, peu importe [l'origine|le mode de vie|qui l'on aime].
EL: Pour {les}, il y va aussi de [l'égalité|l'autodétermination|la diversité de notre société].
EL: Cela [renforce|protège] les droits [des minorités|de celles et ceux qu'on n'entend jamais].
L: Chacune et chacun peut ainsi [choisir sa vie|décider librement].
R: Être libre, ce n'est pas [nuire aux autres|vivre aux dépens des autres].
R: Même une société libre a besoin de règles qui [protègent les plus faibles|soient justes pour tout le monde].
# ground liberal society CON
R: Cela [limite les libertés individuelles|ne va pas avec une société ouverte].
Pour {les}, il s'agit [d'autodétermination|de tolérance] et non de morale.
[Des minorités|D'autres modes de vie] se retrouveraient à l'écart.
Notre société est [diverse|moderne], et cette proposition vient d'un autre temps.
R: L'État n'a pas à dicter aux adultes [leur façon de vivre|comment vivre].
# attitude left PRO
C'est une question de [justice|solidarité].
Les riches et les grands groupes doivent payer leur [juste part|part équitable].
L'être humain passe avant [le profit|les bénéfices].
Il nous faut une société [solidaire|plus juste], où personne n'est laissé au bord du chemin.
Les [salariés|travailleurs] attendent depuis longtemps plus de justice.
# attitude left CON
Cela ne profite encore une fois qu'aux [riches|grands groupes|actionnaires].
C'est [injuste|peu solidaire], et le fossé entre riches et pauvres se creuse.
Les [profits|bénéfices] de quelques-uns ne doivent pas passer avant le bien commun.
La solidarité et la justice, c'est autre chose.
# attitude centre PRO
C'est un compromis [raisonnable|solide], qu'une majorité peut soutenir.
Avec de la mesure, [tout le monde|chaque camp] y gagne.
Je préfère les solutions pragmatiques [à l'idéologie|aux slogans de gauche et de droite].
Il faut faire un pas les uns vers les autres et [jeter des ponts|garder le dialogue].
# attitude centre CON
Il manque ici [le sens de la mesure|un compromis].
Les exigences extrêmes de gauche et de droite ne nous font pas avancer.
Une voie médiane, pragmatique, [serait préférable|aurait plus de soutien].
Avec un peu de dialogue, on trouvera [un meilleur compromis|une solution que chacun peut porter].
# attitude liberal PRO
L: Cela convient à un État [allégé|libéral] et laisse de la place à [la responsabilité de chacun|l'initiative privée].
Qui s'engage et prend ses responsabilités mérite une récompense.
De bonnes incitations valent mieux que [la contrainte|la redistribution], et c'est le cas ici.
L: C'est raisonnable, parce que cela mise sur [la liberté|la responsabilité individuelle].
RE: Un État libéral pose un bon cadre, puis il laisse faire.
# attitude liberal CON
RE: Cela [étouffe|freine] l'initiative privée et la performance.
RE: Un État [allégé|libéral] se limite à [l'essentiel|ses tâches premières].
RE: Je mise sur [la responsabilité individuelle|la liberté], pas sur [la contrainte|la tutelle].
RE: Encore plus d'État [n'est pas une solution|ne nous aidera pas].
L: La liberté a besoin de règles équitables, et elles manquent ici.
L: La liberté va avec la responsabilité, et [je ne la vois pas ici|elle se perd ici].
# attitude conservative PRO
Nous [préservons|gardons] ainsi ce qui fait notre pays.
[La patrie et la tradition|Nos valeurs et nos traditions] méritent [protection|le respect].
C'est conforme au bon sens [et à nos valeurs|de la population].
L'indépendance de notre pays [passe avant tout|doit être préservée].
La famille est et reste le fondement de notre pays.
# attitude conservative CON
Ce qui a fait ses preuves depuis des [générations|décennies], on ne le jette pas sans nécessité.
C'est un pas de plus loin de nos [traditions|valeurs].
Personne à l'extérieur n'a à nous dicter comment vivre dans notre pays.
Le [bon sens|respect de la patrie] s'y oppose.
# age 18-34
Ma génération vivra encore [dans cinquante ans|pendant des décennies] avec les conséquences.
Dans ma colocation, [tout le monde en parle|on en parle sans arrêt].
Quand on débute dans la vie active, [on le remarque chaque jour|on pense aux décennies à venir].
Nous, les jeunes, on nous demande [rarement|trop rarement] notre avis.
Sur mon téléphone, je vois [chaque jour|sans cesse] combien cela occupe les jeunes.
# age 35-49
Entre le travail et [la garde des enfants|les réunions de parents], on sent tout de suite de telles décisions.
Je pense aux enfants qui vont à l'école en ce moment.
Au milieu de la vie active, je vois [combien le temps manque|ce qui marche au quotidien].
Avec [l'hypothèque|le loyer], la crèche et l'assurance-maladie, on compte chaque mois.
# age 50-64
Après [trente|plus de trente] ans de métier, je sais [de quoi je parle|comment cela se passe].
Les enfants [sont adultes|ont quitté la maison], et on voit [les choses plus calmement|les deux côtés].
Dans les années [quatre-vingt|nonante], nous avons [déjà vécu cela|fait des erreurs semblables].
À quelques années de la retraite, on y réfléchit [à deux fois|bien].
# age 65+
Depuis que je suis à la retraite, [j'y regarde de plus près|je vois cela autrement].
Dans ma longue vie, j'ai vu passer [bien des projets|plus d'une réforme] de ce genre.
Je pense à mes petits-enfants [et à leur avenir|qui grandissent].
Autrefois, dans ma jeunesse, [la question ne se posait pas|on n'en parlait pas].
Avec l'AVS, il faut savoir [compter|ménager ses sous].
# residence countryside
Chez nous au village, [on le voit chaque jour|on en parle souvent|on en discute au café].
À la ferme, [on a l'esprit pratique|on voit vite ce qui marche].
Dans la vallée, les trajets sont longs, il ne faut pas l'oublier.
Entre [la forêt et les prés|l'étable et les champs], on voit le monde autrement.
Notre petite commune [connaît le problème|sait ce que cela veut dire].
# residence city
Dans notre quartier, [on le vit chaque jour|tout le monde en parle].
Quand on habite en ville, [on le remarque déjà dans le tram|on le voit à chaque coin de rue].
Entre la gare centrale et la vieille ville, on le sent particulièrement.
Dans [les immeubles|les tours], on vit porte à porte, et cela se remarque tout de suite.
Dans l'agglomération, tout se construit, et la question devient plus pressante.
# civil_status single
Quand on vit seul, [on paie tout soi-même|tous les frais sont pour soi].
Les célibataires sont souvent oubliés dans ces débats.
# civil_status married
Dans notre couple marié, [nous en avons beaucoup parlé|nous sommes d'accord là-dessus].
À la table familiale, nous en avons souvent parlé.
# civil_status divorced
Après un divorce, [on apprend à compter|on voit bien des choses autrement].
Avec deux ménages au lieu d'un, on compte chaque dépense.
# civil_status widowed
Depuis que la maison est vide, [je vois cela autrement|j'y fais plus attention].
Quand on a perdu l'être aimé, on voit ces questions autrement.
# civil_status registered partnership
Dans notre partenariat enregistré, [nous en avons beaucoup parlé|nous sommes d'accord là-dessus].
Pour les couples enregistrés, [cela ne va pas de soi|la question se pose un peu autrement].
# gender female
En tant que [citoyenne|femme], je le dis avec conviction.
En tant que [citoyenne|femme], je souhaite un débat honnête.
# gender male
En tant [que citoyen|qu'homme], je le dis avec conviction.
En tant [que citoyen|qu'homme], je souhaite un débat honnête.
# gender other
En tant que personne non binaire, [je le dis avec conviction|je souhaite un débat honnête].
# denomination believer
Ma foi aussi [me le dit|me conforte dans cette idée].
# denomination none
Pas besoin de religion pour cela, [la raison|le bon sens] suffit.
# filler
On se dispute depuis [des années|longtemps] au sujet {des}.
Le sujet [occupe beaucoup de monde|n'est pas nouveau].
[La vie de tous les jours|La lecture du journal] le montre aussi.
Il faut en parler [honnêtement|ouvertement].
# closing plain PRO
Donc oui.
Allons-y.
Alors on y va.
# closing plain CON
Donc non.
Laissons tomber.
Pas comme ça.
# closing middle PRO
C'est pourquoi [j'approuve|je dis oui].
Cela me convainc.
# closing middle CON
C'est pourquoi [je refuse|je dis non].
Cela ne me convainc pas.
# closing academic PRO
Dans l'ensemble, [il convient d'approuver|l'utilité prédomine].
Une mise en œuvre [soigneuse|suivie scientifiquement] sera décisive.
# closing academic CON
Dans l'ensemble, [il convient d'y renoncer|les inconvénients prédominent].
Une solution [différenciée|fondée sur des données probantes] serait préférable.
# swap
cette proposition -> ce projet
cette mesure -> cette démarche
chaque jour -> tous les jours
tout de suite -> immédiatement
surtout -> avant tout
trop vite -> trop rapidement
plus vite -> plus rapidement
rien -> absolument rien
entreprises -> sociétés
des emplois -> des postes de travail
personne ne -> nul ne
C'est pourquoi -> Voilà pourquoi
Donc oui -> Alors oui
Donc non -> Alors non
les règles -> les prescriptions
aussi -> également
""",
    "it": """
# opening plain PRO
Sì, [era ora|è urgente|è giusto così].
Certo che sono a favore.
Finalmente [si muove qualcosa|qualcuno ci pensa].
{inf}? Sì, [senza esitare|subito|e in fretta].
Per {le} [bisogna cambiare|serve una svolta].
La storia {delle} [è durata abbastanza|mi disturba da tempo].
Io dico sì a {noun}.
Bisogna {inf}, [punto e basta|semplicemente].
# opening plain CON
No, [non serve a niente|così si esagera|è una cattiva idea].
Non ci credo [per niente|proprio].
Lasciamo le cose come stanno.
{inf}? No, [grazie|di sicuro no|si va troppo lontano].
Per {le} [va bene così|non vedo problemi].
Si fa [troppo|molto] rumore per {le}.
Io dico no a {noun}.
Non c'è bisogno di {inf}.
# opening middle PRO
Sostengo [questa misura|questa proposta].
[La proposta|Il progetto] va nella direzione giusta.
Il dibattito {sulle} [è necessario|arriva al momento giusto].
Nel caso {delle} [abbiamo aspettato troppo|serve un nuovo slancio].
Trovo [giusto|ragionevole] {inf}.
{noun} [va nella direzione giusta|sarebbe un passo utile].
È [tempo|ora] di {inf}.
[Diverse|Buone] ragioni parlano a favore di {noun}.
# opening middle CON
Respingo [questa misura|questa proposta].
L'intenzione è buona, ma così non si risolve [nulla|il problema].
Per {le} [bastano|sono sufficienti] le regole attuali.
Il dibattito {sulle} ci distrae [dai veri problemi|da questioni più importanti].
Sarebbe un errore {inf}.
{noun} [manca l'obiettivo|per me va troppo lontano|non risolve il problema].
Non è necessario {inf}.
[Diverse|Buone] ragioni parlano contro {noun}.
# opening academic PRO
Dopo un esame [dei dati|degli studi] disponibili, i vantaggi prevalgono [nettamente|nel complesso].
In linea di principio ritengo il progetto [proporzionato|coerente|adeguato].
Il quadro in vigore non risponde più alle sfide legate {alle}, ragione per cui sostengo il progetto.
Le esperienze fatte nel campo {delle} indicano che lo status quo [è inefficiente|non è sostenibile].
Dal punto di vista [economico|sociale|istituzionale] appare coerente {inf}.
La letteratura [scientifica|specialistica] si esprime piuttosto a favore di {noun}.
Considerati gli effetti a lungo termine, diventa difficile non {inf}.
# opening academic CON
Il beneficio atteso non è proporzionato alla [portata|complessità] dell'intervento.
In linea di principio ritengo il progetto [sproporzionato|poco coerente|inadeguato].
La complessità delle questioni legate {alle} viene [sottovalutata|semplificata], ragione per cui respingo il progetto.
Le esperienze fatte nel campo {delle} non rivelano alcuna necessità di intervenire.
Dal punto di vista [economico|sociale|istituzionale] non appare opportuno {inf}.
La letteratura [scientifica|specialistica] difficilmente giustifica {noun}.
Esistono mezzi meno invasivi per raggiungere lo stesso scopo senza {inf}.
# ground open foreign policy PRO
[I nostri vicini|Altri Paesi europei] ne fanno già una buona esperienza.
Così restiamo un partner affidabile per [l'Europa|i nostri vicini].
I problemi che superano i confini si risolvono [insieme all'Europa|insieme agli altri Stati].
Per {le} dobbiamo coordinarci con [l'Unione europea|i nostri vicini], e questo è un inizio.
Chi vuole farsi sentire all'estero deve [cominciare|dare l'esempio] a casa propria.
# ground open foreign policy CON
Fare da soli non serve; ci vuole una soluzione con [l'Europa|i Paesi vicini].
Metteremmo in pericolo [i rapporti con l'Unione europea|gli accordi con i nostri vicini].
Per {le} servono accordi internazionali, non [regole speciali|eccezioni nazionali].
Un [piccolo Paese aperto|Paese così legato al mondo] non deve [isolarsi|chiudersi in se stesso].
All'estero nessuno capirebbe, e la nostra immagine di partner aperto ne soffrirebbe.
# ground liberal economic policy PRO
Questo crea condizioni [eque|affidabili] per [tutte le aziende|le nostre PMI].
Le aziende possono pianificare con sicurezza e [investire|creare posti di lavoro].
Il mercato [diventa più equo|funziona meglio], e le buone idee si impongono più in fretta.
RE: Chi cambia presto dà un vantaggio [alla nostra economia|alla piazza economica].
L: Meno [burocrazia|scartoffie] significa più [concorrenza|innovazione].
L: Per {le} il mercato sa meglio [dell'amministrazione|dello Stato] che cosa serve.
# ground liberal economic policy CON
Questo [indebolisce la piazza economica|falsa la concorrenza] e mette a rischio [posti di lavoro|investimenti].
Le nostre aziende hanno bisogno di [stabilità|certezze], non di [esperimenti|decisioni affrettate].
RE: Alla fine questo denaro mancherà alle aziende che [pagano i salari|formano apprendisti].
RE: Per [le PMI|l'artigianato] significa soprattutto [più burocrazia|nuovi costi].
RE: Lo Stato non deve [immischiarsi nel mercato|falsare la concorrenza].
RE: Per {le} servono concorrenza e innovazione, non [prescrizioni|un'economia diretta].
# ground restrictive financial policy PRO
A lungo termine questo [alleggerisce|protegge] [le casse pubbliche|il bilancio].
Ogni franco deve andare dove è [più utile|davvero efficace], e qui è così.
Agire oggi significa evitare [debiti|disavanzi] domani.
Per {le} [costi e benefici|spese e risultati] devono tornare in equilibrio.
L: Così il bilancio resta in equilibrio e il freno all'indebitamento viene rispettato.
# ground restrictive financial policy CON
EL: Mancano i soldi [nelle casse|alla Confederazione], e io non voglio nuovi debiti.
EL: Prima di [distribuire soldi|decidere altro] ci vuole un bilancio in equilibrio.
I costi [sono imprevedibili|sfuggono di mano], e alla fine pagano i contribuenti.
Il freno all'indebitamento vale anche per {le}.
RE: Lo Stato deve [risparmiare|ridurre le spese] invece di assumersi nuovi compiti.
# ground law & order PRO
RE: Ci vogliono regole chiare, che [la polizia possa far rispettare|valgano per tutti].
Questo rafforza la sicurezza [sulle strade|nello spazio pubblico|nella vita quotidiana].
R: Chi non rispetta le regole deve [sentirne le conseguenze|aspettarsi una sanzione].
RE: Per {le} si sono tollerati troppo a lungo [gli abusi|i reati].
L'ordine e la sicurezza non vengono da soli.
# ground law & order CON
R: Una regola che [nessuno controlla|la polizia non può far rispettare] non vale nulla.
EL: Così si apre la porta [agli abusi|alle truffe].
La polizia ha di meglio da fare che occuparsi {delle}.
La sicurezza [pubblica|interna] non ci guadagna nulla.
Servono piuttosto pene più severe e una giustizia più [rapida|decisa].
# ground restrictive migration policy PRO
Con l'immigrazione il Paese cresce troppo in fretta, perciò dobbiamo [risparmiare lo spazio|agire adesso].
Quando ogni anno arrivano decine di migliaia di persone, [le scuole|le strade] si riempiono in fretta.
Bisogna pensare prima a chi [vive già qui|è cresciuto qui].
Anche per {le} si sentono [gli effetti dell'immigrazione|le conseguenze della crescita della popolazione].
Dobbiamo poter decidere da soli quante persone possono immigrare, e questo ne fa parte.
# ground restrictive migration policy CON
Finché l'immigrazione non viene [limitata|controllata], così non si risolve [nulla|nessun problema].
EL: Si attirerebbe solo altra gente, che ha bisogno di [alloggi|spazio].
La vera causa è la crescita [rapida|incontrollata] della popolazione, e nessuno ne parla.
Invece di litigare {sulle}, dovremmo [frenare l'immigrazione|proteggere meglio i confini].
Non abbiamo abbastanza spazio per sempre più gente, e questo non cambia nulla.
# ground expanded environmental protection PRO
RE: Così proteggiamo [il suolo, l'acqua e l'aria|il clima e la natura] per le generazioni future.
La crisi climatica non aspetta [che tutti siano d'accordo|la fine dei dibattiti].
RE: Meno [inquinamento|CO2], meno rumore e più [biodiversità|verde] fanno bene a tutti.
Anche per {le} bisogna [risparmiare energia|pensare all'ambiente|prendere sul serio gli obiettivi climatici].
Abbiamo un solo pianeta ed è ora di [tenerne conto|agire di conseguenza].
# ground expanded environmental protection CON
Al clima serve poco; ci vogliono [obiettivi vincolanti|cambiamenti veri], non [simboli|belle parole].
EL: [La natura|L'ambiente|La biodiversità] pagherebbe un prezzo troppo alto.
EL: Questo [consuma suolo ed energia|porta più traffico e inquinamento], e non possiamo più permettercelo.
EL: Per {le} ci si dimentica [dell'ambiente|del clima e della natura].
EL: È un passo indietro per [gli obiettivi climatici|la protezione della natura].
R: Alla natura non servono [mezze misure|misure isolate].
R: Chi vuole proteggere l'ambiente deve puntare sui grandi inquinatori.
# ground expanded welfare state PRO
Ne approfitta soprattutto chi ha [un reddito modesto|poco].
Nessuno deve [restare indietro|rinunciare all'essenziale] per mancanza di soldi.
Questo [alleggerisce|aiuta] le famiglie, [i malati|chi cresce i figli da solo] e tutti coloro che ne hanno bisogno.
Anche per {le} lo Stato sociale deve [fare la sua parte|mantenere le promesse].
Contro la povertà e la [malattia|disoccupazione] servono aiuti, non prediche.
# ground expanded welfare state CON
RL: Questo colpisce [ancora una volta|soprattutto] chi ha [i salari più bassi|un reddito modesto].
RL: Chi guadagna poco [pagherà il conto|ne soffrirà di più].
Invece di parlare {delle}, parliamo di [povertà|protezione sociale|alloggi accessibili].
La sicurezza sociale viene prima, e qui viene [indebolita|dimenticata].
I più deboli [non ci guadagnano nulla|restano a mani vuote].
# ground liberal society PRO
Una società [aperta|moderna] deve avere il coraggio di evolvere.
EL: Tutti meritano le stesse opportunità, non importa [da dove vengono|come vivono|chi amano].
EL: Per {le} si tratta anche di [parità|autodeterminazione|rispetto per la diversità].
EL: Questo [rafforza|protegge] i diritti [delle minoranze|di chi non viene mai ascoltato].
L: Così ognuno può [scegliere la propria vita|decidere liberamente].
R: Essere liberi non significa [danneggiare gli altri|vivere alle spalle degli altri].
R: Anche una società libera ha bisogno di regole che [proteggano i più deboli|siano giuste per tutti].
# ground liberal society CON
R: Questo [limita la libertà personale|non si addice a una società aperta].
Per {le} si tratta di [autodeterminazione|tolleranza] e non di morale.
[Le minoranze|Altre forme di vita] verrebbero messe da parte.
La nostra società è [variegata|moderna], e questa proposta viene da un altro tempo.
R: Lo Stato non deve dettare agli adulti [il modo di vivere|come vivere].
# attitude left PRO
È una questione di [giustizia|solidarietà].
I ricchi e le grandi imprese devono pagare la loro [giusta|equa] parte.
Le persone contano più [dei profitti|degli utili].
Ci vuole una società [solidale|più giusta], in cui nessuno resti indietro.
Chi lavora aspetta da tempo più giustizia.
# attitude left CON
Ne approfittano ancora una volta solo [i ricchi|le grandi imprese|gli azionisti].
È [ingiusto|poco solidale], e il divario tra ricchi e poveri aumenta.
[I profitti|Gli utili] di pochi non devono contare più del bene comune.
La solidarietà e la giustizia sono un'altra cosa.
# attitude centre PRO
È un compromesso [ragionevole|solido], che una maggioranza può sostenere.
Con la giusta misura ci guadagnano [tutti|entrambe le parti].
Preferisco le soluzioni pragmatiche [all'ideologia|agli slogan di destra e di sinistra].
Dobbiamo venirci incontro e [costruire ponti|mantenere il dialogo].
# attitude centre CON
Qui manca [il senso della misura|un compromesso].
Le richieste estreme di destra e di sinistra non ci portano avanti.
Una via di mezzo pragmatica [sarebbe migliore|avrebbe più consenso].
Con un po' di dialogo si trova [un compromesso migliore|una soluzione condivisa].
# attitude liberal PRO
L: Si addice a uno Stato [snello|liberale] e lascia spazio [alla responsabilità individuale|all'iniziativa privata].
Chi si impegna e si assume responsabilità merita di essere premiato.
I buoni incentivi funzionano meglio della [costrizione|ridistribuzione], e qui ci sono.
L: È ragionevole, perché punta sulla [libertà|responsabilità individuale].
RE: Uno Stato liberale crea buone condizioni quadro e poi si fa da parte.
# attitude liberal CON
RE: Questo [soffoca|frena] l'iniziativa privata e il merito.
RE: Uno Stato [snello|liberale] si limita [all'essenziale|ai suoi compiti principali].
RE: Punto sulla [responsabilità individuale|libertà], non sulla [costrizione|tutela dello Stato].
RE: Ancora più Stato [non è una soluzione|non ci aiuta].
L: La libertà ha bisogno di regole eque, e qui mancano.
L: La libertà va insieme alla responsabilità, e qui [non la vedo|si perde].
# attitude conservative PRO
Così [conserviamo|preserviamo] ciò che rende unico il nostro Paese.
[La patria e la tradizione|I nostri valori e le nostre tradizioni] meritano [protezione|rispetto].
È conforme al buon senso [e ai nostri valori|della popolazione].
L'indipendenza del nostro Paese [viene prima di tutto|va difesa].
La famiglia è e resta il fondamento del nostro Paese.
# attitude conservative CON
Ciò che funziona da [generazioni|decenni] non si butta via senza necessità.
È un altro passo lontano [dalle nostre tradizioni|dai nostri valori].
Nessuno da fuori deve dirci come vivere nel nostro Paese.
Il [buon senso|rispetto per la patria] dice il contrario.
# age 18-34
La mia generazione ne sentirà gli effetti [tra cinquant'anni|per decenni].
Nel mio appartamento condiviso [ne parlano tutti|se ne parla sempre].
Chi come me si affaccia al mondo del lavoro [se ne accorge ogni giorno|pensa ai prossimi decenni].
A noi giovani si chiede [raramente|troppo raramente] un parere.
Sul telefonino vedo [ogni giorno|di continuo] quanto la cosa interessi i giovani.
# age 35-49
Tra il lavoro e [la cura dei figli|le riunioni dei genitori] queste decisioni si sentono subito.
Penso ai bambini che adesso vanno a scuola.
A metà della vita professionale vedo [quanto manca il tempo|che cosa funziona ogni giorno].
Con [l'ipoteca|l'affitto], l'asilo e la cassa malati si fanno i conti ogni mese.
# age 50-64
Dopo [trenta|più di trenta] anni di mestiere so [di che cosa parlo|come vanno queste cose].
I figli [sono ormai adulti|se ne sono andati di casa], e si vedono [le cose con più calma|entrambi i lati].
Negli anni [ottanta|novanta] abbiamo [già vissuto questo|fatto errori simili].
A pochi anni dalla pensione ci si pensa [due volte|bene].
# age 65+
Da quando ricevo la pensione [guardo le cose più da vicino|vedo tutto con altri occhi].
Nella mia lunga vita ho visto passare [molti progetti|più di una riforma] di questo genere.
Penso ai miei nipotini [e al loro futuro|che stanno crescendo].
Una volta, in gioventù, [la questione non si poneva|non se ne parlava].
Con l'AVS bisogna saper [fare i conti|risparmiare].
# residence countryside
Da noi in paese [lo si vede ogni giorno|se ne parla spesso|se ne discute all'osteria].
In fattoria [si pensa in modo pratico|si vede subito che cosa funziona].
In valle le distanze sono lunghe, e questo non va dimenticato.
Tra [boschi e prati|stalla e campi] il mondo si vede in un altro modo.
Il nostro piccolo Comune [conosce il problema|sa che cosa significa].
# residence city
Nel nostro quartiere [lo si vive ogni giorno|ne parlano tutti].
Chi abita in città [se ne accorge già sul tram|lo vede a ogni angolo].
Tra la stazione centrale e la città vecchia lo si sente in modo particolare.
Nei [palazzi|grattacieli] si vive porta a porta, e la cosa si nota subito.
Nell'agglomerato si costruisce ovunque, e la questione diventa più urgente.
# civil_status single
Chi vive da solo [paga tutto da sé|paga da sé tutte le spese].
I single vengono spesso dimenticati in questi dibattiti.
# civil_status married
Nel nostro matrimonio [ne abbiamo parlato a lungo|siamo d'accordo su questo].
A tavola in famiglia ne abbiamo parlato spesso.
# civil_status divorced
Dopo un divorzio [si impara a fare i conti|si vedono molte cose in modo diverso].
Con due economie domestiche al posto di una si conta ogni spesa.
# civil_status widowed
Da quando la casa è vuota [vedo la cosa in modo diverso|ci faccio più attenzione].
Chi ha perso la persona amata vede queste domande in modo diverso.
# civil_status registered partnership
Nella nostra unione domestica registrata [ne abbiamo parlato a lungo|siamo d'accordo su questo].
Per le coppie registrate [non è scontato|la questione è un po' diversa].
# gender female
Come [cittadina|donna] lo dico con convinzione.
Come [cittadina|donna] desidero un dibattito onesto.
# gender male
Come [cittadino|uomo] lo dico con convinzione.
Come [cittadino|uomo] desidero un dibattito onesto.
# gender other
Come persona non binaria [lo dico con convinzione|desidero un dibattito onesto].
# denomination believer
Anche la mia fede [me lo dice|mi conferma in questo].
# denomination none
Per questo non serve la religione, basta [la ragione|il buon senso].
# filler
Si discute da [anni|molto tempo] {delle}.
Il tema [interessa molti|non è nuovo].
Lo mostra anche [la vita di tutti i giorni|la lettura dei giornali].
Bisogna parlarne [con onestà|apertamente].
# closing plain PRO
Quindi sì.
Avanti.
Facciamolo.
# closing plain CON
Quindi no.
Lasciamo perdere.
Non così.
# closing middle PRO
Per questo [approvo|dico sì].
Questo mi convince.
# closing middle CON
Per questo [rifiuto|dico no].
Questo non mi convince.
# closing academic PRO
Nel complesso [va approvato|prevale l'utilità].
Sarà decisiva un'attuazione [accurata|accompagnata da studi].
# closing academic CON
Nel complesso [è da sconsigliare|prevalgono gli svantaggi].
Sarebbe preferibile una soluzione [differenziata|basata su dati solidi].
# swap
questa proposta -> questo progetto
questa misura -> questo provvedimento
ogni giorno -> tutti i giorni
subito -> immediatamente
soprattutto -> in primo luogo
in fretta -> rapidamente
nulla -> niente
Bisogna -> Occorre
bisogna -> occorre
servono -> occorrono
Per questo -> Perciò
Quindi -> Dunque
posti di lavoro -> impieghi
aziende -> ditte
anche -> pure
""",
}
