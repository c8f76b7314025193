"""What the synthetic release argues about: things, and what could be done about them, in three languages.

An issue is one thing with one measure that suits it. All things are plural, so that one wording of a measure fits each:
German nouns stand without an article (and in the dative behind "von", "mit", "bei"), French ones behind "les", Italian
ones behind the article that they are written with here.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LANGUAGES = ("de", "fr", "it")

# What a measure does, which some sentences depend on: restrict; expand or pay for; loosen or lower.
RESTRICT, EXPAND, LOOSEN = "R", "E", "L"


# The eight political issues of a profile, each by a word of our own.
EIGHT_ISSUES = {
    "abroad": "open foreign policy",
    "economy": "liberal economic policy",
    "finances": "restrictive financial policy",
    "order": "law & order",
    "migration": "restrictive migration policy",
    "environment": "expanded environmental protection",
    "welfare": "expanded welfare state",
    "society": "liberal society",
}
# Kind of thing → which of the eight political issues somebody would bring up in an argument about it.
GROUNDS = {
    "harm": "environment economy society order abroad",
    "vice": "economy society order welfare",
    "service": "welfare finances economy society migration",
    "energy": "environment economy finances abroad welfare",
    "price": "welfare economy finances migration",
    "income": "welfare finances economy migration",
    "tax": "finances economy welfare",
    "levy": "environment finances economy abroad welfare",
    "security": "order society migration finances abroad",
    "entry": "migration abroad society order economy",
    "right": "society order economy welfare",
    "nature": "environment order economy society",
    "trade": "abroad economy environment order",
}


class Thing(NamedTuple):
    """A plural noun: its kind, German (nominative and dative), French, Italian; and the side that a measure pleases.

    ``side`` turns the lean of a measure round where it is negative: lower rents please the left, lower taxes the right.
    """

    kind: str
    german: str
    dative: str
    french: str
    italian: str
    side: float = 1.0


class Measure(NamedTuple):
    """What could be done about things of some kinds.

    Args:
        kinds: of things, with blanks between them.
        does: RESTRICT, EXPAND or LOOSEN.
        lean: who is for it, from -1 (the left) to 1 (the right).
        de: an infinitive, the same with "zu", a question in the passive, a noun (feminine or neuter).
        fr: an infinitive, a noun (singular, not with "le").
        it: an infinitive, a noun (singular, with an indefinite article).
    """

    kinds: str
    does: str
    lean: float
    de: tuple[str, str, str, str]
    fr: tuple[str, str]
    it: tuple[str, str]


# Below each kind: German | dative where it differs | French | Italian | side where it is not 1
_THINGS = """
# harm
Kurzstreckenflüge | Kurzstreckenflügen | vols de courte distance | i voli a corto raggio
Laubbläser | Laubbläsern | souffleurs de feuilles | i soffiatori per foglie
Ölheizungen | | chauffages au mazout | i riscaldamenti a olio
Einwegverpackungen | | emballages à usage unique | gli imballaggi monouso
schwere Geländewagen | schweren Geländewagen | véhicules tout-terrain lourds | i fuoristrada pesanti
chemische Pflanzenschutzmittel | chemischen Pflanzenschutzmitteln | pesticides de synthèse | i pesticidi chimici
lange Tiertransporte | langen Tiertransporten | longs transports d'animaux | i lunghi trasporti di animali
Privatjets | | jets privés | i jet privati
Pelzimporte | Pelzimporten | importations de fourrure | le importazioni di pellicce
Zweitwohnungen | | résidences secondaires | le residenze secondarie
Schottergärten | | jardins de gravier | i giardini di ghiaia
Heizpilze | Heizpilzen | chauffages de terrasse | i funghi riscaldanti
Plastiksäcke | Plastiksäcken | sacs en plastique | i sacchetti di plastica
Verbrennungsmotoren | | moteurs à combustion | i motori a combustione
Schneekanonen | | canons à neige | i cannoni da neve
Lastwagenfahrten durch die Alpen | | trajets de camions à travers les Alpes | i transiti di camion attraverso le Alpi
laute Motorräder | lauten Motorrädern | motos bruyantes | le moto rumorose
Palmölimporte | Palmölimporten | importations d'huile de palme | le importazioni di olio di palma
# vice
private Feuerwerke | privaten Feuerwerken | feux d'artifice privés | i fuochi d'artificio privati
Energydrinks | | boissons énergisantes | le bevande energetiche
E-Zigaretten | | cigarettes électroniques | le sigarette elettroniche
Online-Glücksspiele | Online-Glücksspielen | jeux d'argent en ligne | i giochi d'azzardo online
digitale Werbetafeln | digitalen Werbetafeln | panneaux publicitaires numériques | i cartelloni digitali
Sportwetten | | paris sportifs | le scommesse sportive
Kleinkredite | Kleinkrediten | petits crédits | i piccoli crediti
zuckerhaltige Getränke | zuckerhaltigen Getränken | boissons sucrées | le bevande zuccherate
Kurzzeitvermietungen | | locations de courte durée | gli affitti brevi
# service
Kinderkrippen | | crèches | gli asili nido
Tagesschulen | | écoles à horaire continu | le scuole a orario continuato
Bibliotheken | | bibliothèques | le biblioteche
Quartiertreffs | | maisons de quartier | i centri di quartiere
Pflegeheime | Pflegeheimen | établissements médico-sociaux | le case per anziani
Regionalspitäler | Regionalspitälern | hôpitaux régionaux | gli ospedali regionali
Jugendzentren | | centres de jeunesse | i centri giovanili
Poststellen | | bureaux de poste | gli uffici postali
Sprachkurse für Zugewanderte | Sprachkursen für Zugewanderte | cours de langue pour personnes immigrées | \
i corsi di lingua per persone immigrate
Hallenbäder | Hallenbädern | piscines couvertes | le piscine coperte
Schuldenberatungen | | services de désendettement | i servizi di consulenza per i debiti
Frauenhäuser | Frauenhäusern | foyers d'accueil pour femmes | le case di accoglienza per donne
Hausarztpraxen | | cabinets de médecine de famille | gli studi di medicina di famiglia
Sozialwohnungen | | logements sociaux | gli alloggi sociali
Museen | | musées | i musei
Theaterhäuser | Theaterhäusern | théâtres | i teatri
Musikschulen | | écoles de musique | le scuole di musica
Sportplätze | Sportplätzen | terrains de sport | i campi sportivi
Spitexdienste | Spitexdiensten | services d'aide à domicile | i servizi di cura a domicilio
# energy
Nachtzüge | Nachtzügen | trains de nuit | i treni notturni
Velowege | Velowegen | pistes cyclables | le piste ciclabili
Solaranlagen | | installations solaires | gli impianti solari
Windparks | | parcs éoliens | i parchi eolici
Wasserkraftwerke | Wasserkraftwerken | centrales hydroélectriques | le centrali idroelettriche
Ladestationen für Elektroautos | | bornes de recharge pour voitures électriques | \
le stazioni di ricarica per auto elettriche
Buslinien auf dem Land | | lignes de bus à la campagne | le linee di autobus in campagna
Wärmenetze | Wärmenetzen | réseaux de chauffage à distance | le reti di teleriscaldamento
Glasfasernetze | Glasfasernetzen | réseaux de fibre optique | le reti in fibra ottica
Recyclinghöfe | Recyclinghöfen | déchetteries | i centri di riciclaggio
# price
Mieten | | loyers | gli affitti | -1
Krankenkassenprämien | | primes d'assurance-maladie | i premi di cassa malati | -0.8
Billettpreise | Billettpreisen | prix des billets de train | i prezzi dei biglietti del treno | -0.7
Stromtarife | Stromtarifen | tarifs de l'électricité | le tariffe dell'elettricità | -0.4
Kitatarife | Kitatarifen | tarifs des crèches | le tariffe degli asili nido | -0.9
Studiengebühren | | taxes d'études | le tasse universitarie | -0.8
Parkgebühren | | taxes de stationnement | le tasse di parcheggio | 0.9
Abfallgebühren | | taxes sur les déchets | le tasse sui rifiuti | 0.6
# income
Altersrenten | | rentes de vieillesse | le rendite di vecchiaia | 0.8
Kinderzulagen | | allocations pour enfants | gli assegni per i figli | 0.6
Stipendien | | bourses d'études | le borse di studio | 0.9
Direktzahlungen an Bauernbetriebe | | paiements directs aux exploitations agricoles | \
i pagamenti diretti alle aziende agricole | -0.5
Arbeitslosengelder | Arbeitslosengeldern | indemnités de chômage | le indennità di disoccupazione
Pflegelöhne | Pflegelöhnen | salaires dans les soins | gli stipendi nel settore delle cure | 0.7
Sozialhilfebeiträge | Sozialhilfebeiträgen | prestations d'aide sociale | le prestazioni di aiuto sociale
Ergänzungsleistungen | | prestations complémentaires | le prestazioni complementari | 0.9
# tax
Erbschaftssteuern | | impôts sur les successions | le imposte di successione
Zölle auf Lebensmittel | Zöllen auf Lebensmittel | droits de douane sur les aliments | i dazi sugli alimenti | -0.3
Vermögenssteuern | | impôts sur la fortune | le imposte sulla sostanza
Unternehmenssteuern | | impôts sur les entreprises | le imposte sulle imprese
Wasserzinsen | | redevances hydrauliques | i canoni d'acqua | 0.2
# levy
Treibstoffabgaben | | taxes sur les carburants | le tasse sui carburanti
Flugticketabgaben | | taxes sur les billets d'avion | le tasse sui biglietti aerei
# security
Überwachungskameras | | caméras de surveillance | le telecamere di sorveglianza
Polizeipatrouillen | | patrouilles de police | le pattuglie di polizia
Grenzkontrollen | | contrôles à la frontière | i controlli alla frontiera
Polizeidrohnen | | drones de police | i droni di polizia
Körperkameras | | caméras-piétons | le videocamere indossabili
elektronische Fussfesseln | elektronischen Fussfesseln | bracelets électroniques | i braccialetti elettronici
Radarfallen | | radars routiers | gli autovelox | -0.5
Auslandseinsätze der Armee | Auslandseinsätzen der Armee | engagements de l'armée à l'étranger | \
gli impieghi dell'esercito all'estero | 0.3
private Sicherheitsdienste | privaten Sicherheitsdiensten | services de sécurité privés | \
i servizi di sicurezza privati
Verkehrskontrollen in der Nacht | | contrôles routiers de nuit | i controlli stradali notturni | 0.4
Ausweiskontrollen in Zügen | | contrôles d'identité dans les trains | i controlli d'identità nei treni
Schnellgerichte | Schnellgerichten | procédures judiciaires accélérées | i processi accelerati
Kampfflugzeuge | Kampfflugzeugen | avions de combat | gli aerei da combattimento
Cyberabwehrzentren | | centres de cyberdéfense | i centri di ciberdifesa | 0.5
# entry
Einbürgerungen | | naturalisations | le naturalizzazioni
Arbeitsbewilligungen für Geflüchtete | | permis de travail pour personnes réfugiées | \
i permessi di lavoro per persone rifugiate
Familiennachzüge | Familiennachzügen | regroupements familiaux | i ricongiungimenti familiari
Doppelbürgerschaften | | doubles nationalités | le doppie cittadinanze
# right
Onlineabstimmungen | | votations en ligne | le votazioni online | 0.3
Sonntagsverkäufe | Sonntagsverkäufen | ouvertures dominicales des magasins | le aperture domenicali dei negozi | -0.8
Leihmutterschaften | | gestations pour autrui | le maternità surrogate | 0.6
Eizellenspenden | | dons d'ovules | le donazioni di ovuli | 0.6
Adoptionen durch unverheiratete Paare | | adoptions par des couples non mariés | \
le adozioni da parte di coppie non sposate
befristete Anstellungen | befristeten Anstellungen | emplois temporaires | gli impieghi temporanei | -0.8
Scheidungen ohne Gericht | | divorces sans tribunal | i divorzi senza tribunale | 0.5
Auslandadoptionen | | adoptions internationales | le adozioni internazionali | 0.2
Cannabisverkäufe in Apotheken | Cannabisverkäufen in Apotheken | ventes de cannabis en pharmacie | \
le vendite di cannabis in farmacia
anonyme Wahlspenden | anonymen Wahlspenden | dons électoraux anonymes | le donazioni elettorali anonime | -0.8
flexible Arbeitszeiten | flexiblen Arbeitszeiten | horaires de travail flexibles | gli orari di lavoro flessibili | \
-0.6
# nature
Bauten ausserhalb der Bauzone | | constructions hors de la zone à bâtir | \
le costruzioni fuori dalla zona edificabile | -0.7
Wolfsabschüsse | Wolfsabschüssen | tirs de loups | gli abbattimenti di lupi | -1
Tierversuche | Tierversuchen | expériences sur les animaux | gli esperimenti sugli animali | -0.6
Abbrüche alter Häuser | Abbrüchen alter Häuser | démolitions de vieux immeubles | le demolizioni di vecchie case | \
-0.5
Grossanlässe in der Natur | Grossanlässen in der Natur | grandes manifestations dans la nature | \
le grandi manifestazioni nella natura | -0.3
# trade
Freihandelsverträge | Freihandelsverträgen | accords de libre-échange | gli accordi di libero scambio | -0.8
Waffenexporte | Waffenexporten | exportations d'armes | le esportazioni di armi | -0.9
"""

MEASURES = (
    Measure(
        "harm vice",
        RESTRICT,
        -0.8,
        ("{o} verbieten", "{o} zu verbieten", "Sollen {o} verboten werden", "ein Verbot von {dat}"),
        ("interdire {les}", "l'interdiction {des}"),
        ("vietare {le}", "un divieto {delle}"),
    ),
    Measure(
        "harm vice",
        RESTRICT,
        -0.8,
        (
            "{o} stärker besteuern",
            "{o} stärker zu besteuern",
            "Sollen {o} stärker besteuert werden",
            "eine höhere Steuer auf {o}",
        ),
        ("taxer davantage {les}", "une taxe plus élevée sur {les}"),
        ("tassare di più {le}", "una tassa più alta {sulle}"),
    ),
    Measure(
        "harm vice",
        RESTRICT,
        -0.3,
        (
            "{o} strenger kontrollieren",
            "{o} strenger zu kontrollieren",
            "Sollen {o} strenger kontrolliert werden",
            "eine strengere Kontrolle von {dat}",
        ),
        ("contrôler plus sévèrement {les}", "un contrôle plus sévère {des}"),
        ("controllare più severamente {le}", "un controllo più severo {delle}"),
    ),
    Measure(
        "harm vice",
        RESTRICT,
        -0.4,
        (
            "{o} nur noch mit Bewilligung erlauben",
            "{o} nur noch mit Bewilligung zu erlauben",
            "Sollen {o} nur noch mit Bewilligung erlaubt werden",
            "eine Bewilligungspflicht für {o}",
        ),
        ("soumettre {les} à autorisation", "une autorisation obligatoire pour {les}"),
        ("sottoporre {le} ad autorizzazione", "un'autorizzazione obbligatoria per {le}"),
    ),
    Measure(
        "harm vice",
        RESTRICT,
        -0.7,
        (
            "{o} schrittweise abschaffen",
            "{o} schrittweise abzuschaffen",
            "Sollen {o} schrittweise abgeschafft werden",
            "eine schrittweise Abschaffung von {dat}",
        ),
        ("supprimer progressivement {les}", "une suppression progressive {des}"),
        ("eliminare gradualmente {le}", "un'eliminazione graduale {delle}"),
    ),
    Measure(
        "harm vice",
        LOOSEN,
        0.9,
        (
            "{o} ohne Auflagen erlauben",
            "{o} ohne Auflagen zu erlauben",
            "Sollen {o} ohne Auflagen erlaubt sein",
            "eine Erlaubnis ohne Auflagen für {o}",
        ),
        ("autoriser {les} sans condition", "une autorisation sans condition pour {les}"),
        ("permettere {le} senza condizioni", "un permesso senza condizioni per {le}"),
    ),
    Measure(
        "service energy",
        EXPAND,
        -0.7,
        (
            "{o} stärker fördern",
            "{o} stärker zu fördern",
            "Sollen {o} stärker gefördert werden",
            "eine stärkere Förderung von {dat}",
        ),
        ("soutenir davantage {les}", "un soutien accru {aux}"),
        ("sostenere di più {le}", "un maggiore sostegno {alle}"),
    ),
    Measure(
        "service energy",
        EXPAND,
        -0.8,
        (
            "{o} mit öffentlichem Geld ausbauen",
            "{o} mit öffentlichem Geld auszubauen",
            "Sollen {o} mit öffentlichem Geld ausgebaut werden",
            "mehr öffentliches Geld für {o}",
        ),
        ("développer {les} avec de l'argent public", "un investissement public dans {les}"),
        ("ampliare {le} con denaro pubblico", "un investimento pubblico {nelle}"),
    ),
    Measure(
        "service energy",
        LOOSEN,
        0.9,
        (
            "{o} privatisieren",
            "{o} zu privatisieren",
            "Sollen {o} privatisiert werden",
            "eine Privatisierung von {dat}",
        ),
        ("privatiser {les}", "la privatisation {des}"),
        ("privatizzare {le}", "una privatizzazione {delle}"),
    ),
    Measure(
        "service energy",
        LOOSEN,
        0.8,
        (
            "{o} weniger stark subventionieren",
            "{o} weniger stark zu subventionieren",
            "Sollen {o} weniger stark subventioniert werden",
            "eine Kürzung der Beiträge für {o}",
        ),
        ("subventionner moins {les}", "une réduction des subventions pour {les}"),
        ("sovvenzionare meno {le}", "una riduzione delle sovvenzioni per {le}"),
    ),
    Measure(
        "service energy",
        EXPAND,
        -0.6,
        (
            "{o} in allen Kantonen vorschreiben",
            "{o} in allen Kantonen vorzuschreiben",
            "Sollen {o} in allen Kantonen vorgeschrieben werden",
            "eine Mindestzahl von {dat} in allen Kantonen",
        ),
        ("rendre {les} obligatoires dans tous les cantons", "un minimum garanti pour {les} dans tous les cantons"),
        ("imporre {le} in tutti i Cantoni", "un minimo garantito per {le} in tutti i Cantoni"),
    ),
    Measure(
        "price income tax levy",
        LOOSEN,
        1.0,
        ("die {o} senken", "die {o} zu senken", "Sollen die {o} gesenkt werden", "eine Senkung der {o}"),
        ("baisser {les}", "une baisse {des}"),
        ("abbassare {le}", "una riduzione {delle}"),
    ),
    Measure(
        "price income tax levy",
        EXPAND,
        -1.0,
        ("die {o} erhöhen", "die {o} zu erhöhen", "Sollen die {o} erhöht werden", "eine Erhöhung der {o}"),
        ("augmenter {les}", "une hausse {des}"),
        ("aumentare {le}", "un aumento {delle}"),
    ),
    Measure(
        "price tax levy",
        RESTRICT,
        -0.2,
        (
            "die {o} landesweit vereinheitlichen",
            "die {o} landesweit zu vereinheitlichen",
            "Sollen die {o} landesweit vereinheitlicht werden",
            "eine landesweite Vereinheitlichung der {o}",
        ),
        ("uniformiser {les} dans tout le pays", "une règle unique pour {les} dans tout le pays"),
        ("uniformare {le} in tutto il Paese", "una regola unica per {le} in tutto il Paese"),
    ),
    Measure(
        "price income",
        RESTRICT,
        0.7,
        (
            "die {o} nach oben begrenzen",
            "die {o} nach oben zu begrenzen",
            "Sollen die {o} nach oben begrenzt werden",
            "eine Obergrenze für die {o}",
        ),
        ("plafonner {les}", "un plafond pour {les}"),
        ("fissare un tetto massimo per {le}", "un tetto massimo per {le}"),
    ),
    Measure(
        "price tax levy",
        RESTRICT,
        0.6,
        (
            "die {o} für fünf Jahre einfrieren",
            "die {o} für fünf Jahre einzufrieren",
            "Sollen die {o} für fünf Jahre eingefroren werden",
            "ein Einfrieren der {o} für fünf Jahre",
        ),
        ("geler {les} pendant cinq ans", "un gel {des} pendant cinq ans"),
        ("congelare {le} per cinque anni", "un blocco {delle} per cinque anni"),
    ),
    Measure(
        "price",
        EXPAND,
        0.5,
        (
            "die {o} nach Einkommen abstufen",
            "die {o} nach Einkommen abzustufen",
            "Sollen die {o} nach Einkommen abgestuft werden",
            "eine Abstufung der {o} nach Einkommen",
        ),
        ("échelonner {les} selon le revenu", "une échelle selon le revenu pour {les}"),
        ("graduare {le} secondo il reddito", "una scala secondo il reddito per {le}"),
    ),
    Measure(
        "income",
        EXPAND,
        -0.8,
        (
            "die {o} jedes Jahr an die Teuerung anpassen",
            "die {o} jedes Jahr an die Teuerung anzupassen",
            "Sollen die {o} jedes Jahr an die Teuerung angepasst werden",
            "eine jährliche Anpassung der {o} an die Teuerung",
        ),
        ("adapter chaque année {les} au renchérissement", "une adaptation annuelle {des} au renchérissement"),
        ("adeguare ogni anno {le} al rincaro", "un adeguamento annuale {delle} al rincaro"),
    ),
    Measure(
        "tax levy",
        LOOSEN,
        1.0,
        ("die {o} abschaffen", "die {o} abzuschaffen", "Sollen die {o} abgeschafft werden", "eine Abschaffung der {o}"),
        ("abolir {les}", "la suppression {des}"),
        ("abolire {le}", "un'abolizione {delle}"),
    ),
    Measure(
        "security",
        EXPAND,
        0.9,
        (
            "{o} vermehrt einsetzen",
            "{o} vermehrt einzusetzen",
            "Sollen {o} vermehrt eingesetzt werden",
            "eine stärkere Nutzung von {dat}",
        ),
        ("recourir davantage {aux}", "un recours accru {aux}"),
        ("ricorrere di più {alle}", "un maggiore ricorso {alle}"),
    ),
    Measure(
        "security",
        RESTRICT,
        -0.8,
        (
            "{o} stärker einschränken",
            "{o} stärker einzuschränken",
            "Sollen {o} stärker eingeschränkt werden",
            "eine stärkere Einschränkung von {dat}",
        ),
        ("limiter davantage {les}", "une limitation plus stricte {des}"),
        ("limitare di più {le}", "una limitazione più severa {delle}"),
    ),
    Measure(
        "security",
        RESTRICT,
        -0.5,
        (
            "{o} gesetzlich strenger regeln",
            "{o} gesetzlich strenger zu regeln",
            "Sollen {o} gesetzlich strenger geregelt werden",
            "eine strengere gesetzliche Regelung von {dat}",
        ),
        ("encadrer plus strictement {les} dans la loi", "un cadre légal plus strict pour {les}"),
        ("regolare più severamente {le} per legge", "una legge più severa {sulle}"),
    ),
    Measure(
        "security",
        LOOSEN,
        -0.9,
        ("{o} abschaffen", "{o} abzuschaffen", "Sollen {o} abgeschafft werden", "eine Abschaffung von {dat}"),
        ("renoncer {aux}", "l'abandon {des}"),
        ("rinunciare {alle}", "una rinuncia {alle}"),
    ),
    Measure(
        "security",
        EXPAND,
        0.7,
        (
            "mehr Geld für {o} ausgeben",
            "mehr Geld für {o} auszugeben",
            "Soll mehr Geld für {o} ausgegeben werden",
            "mehr Geld für {o}",
        ),
        ("dépenser davantage pour {les}", "un budget plus élevé pour {les}"),
        ("spendere di più per {le}", "un budget più alto per {le}"),
    ),
    Measure(
        "entry right nature trade",
        LOOSEN,
        -0.8,
        ("{o} erleichtern", "{o} zu erleichtern", "Sollen {o} erleichtert werden", "eine Erleichterung von {dat}"),
        ("faciliter {les}", "une procédure plus simple pour {les}"),
        ("facilitare {le}", "una procedura più semplice per {le}"),
    ),
    Measure(
        "entry right nature trade",
        RESTRICT,
        0.8,
        (
            "{o} an strengere Bedingungen knüpfen",
            "{o} an strengere Bedingungen zu knüpfen",
            "Sollen {o} an strengere Bedingungen geknüpft werden",
            "eine Verschärfung der Bedingungen für {o}",
        ),
        ("soumettre {les} à des conditions plus strictes", "un durcissement des conditions pour {les}"),
        ("sottoporre {le} a condizioni più severe", "un inasprimento delle condizioni per {le}"),
    ),
    Measure(
        "entry right nature trade",
        RESTRICT,
        0.7,
        (
            "{o} zahlenmässig begrenzen",
            "{o} zahlenmässig zu begrenzen",
            "Sollen {o} zahlenmässig begrenzt werden",
            "eine zahlenmässige Begrenzung von {dat}",
        ),
        ("limiter le nombre {des}", "une limite au nombre {des}"),
        ("limitare il numero {delle}", "un limite al numero {delle}"),
    ),
    Measure(
        "entry right nature trade",
        RESTRICT,
        0.9,
        (
            "{o} nur in Ausnahmefällen bewilligen",
            "{o} nur in Ausnahmefällen zu bewilligen",
            "Sollen {o} nur in Ausnahmefällen bewilligt werden",
            "eine Beschränkung von {dat} auf Ausnahmefälle",
        ),
        ("restreindre {les} aux cas exceptionnels", "une limitation {des} aux cas exceptionnels"),
        ("ammettere {le} solo in casi eccezionali", "una limitazione {delle} ai casi eccezionali"),
    ),
    Measure(
        "entry right nature trade",
        RESTRICT,
        -0.1,
        (
            "{o} landesweit einheitlich regeln",
            "{o} landesweit einheitlich zu regeln",
            "Sollen {o} landesweit einheitlich geregelt werden",
            "eine landesweit einheitliche Regelung von {dat}",
        ),
        ("régler {les} de manière uniforme dans tout le pays", "une règle uniforme pour {les} dans tout le pays"),
        ("regolare {le} in modo uniforme in tutto il Paese", "una regola uniforme per {le} in tutto il Paese"),
    ),
)

# How an issue is asked; {ask} is the passive, which only German has.
QUESTIONS = {
    "de": (
        "{ask}?",
        "Soll der Bund {inf}?",
        "Befürworten Sie {noun}?",
        "Sind Sie für {noun}?",
        "Würden Sie {noun} begrüssen?",
    ),
    "fr": (
        "Faut-il {inf} ?",
        "La Confédération doit-elle {inf} ?",
        "Êtes-vous favorable à {noun} ?",
        "Approuvez-vous {noun} ?",
    ),
    "it": (
        "Bisogna {inf}?",
        "La Confederazione deve {inf}?",
        "È favorevole a {noun}?",
        "Approverebbe {noun}?",
    ),
}

_WITH_ARTICLE = {
    "i": ("dei", "ai", "sui", "nei"),
    "gli": ("degli", "agli", "sugli", "negli"),
    "le": ("delle", "alle", "sulle", "nelle"),
}


def things() -> list[Thing]:
    """Return what can be argued about."""
    found, kind = [], ""
    for line in _THINGS.strip().splitlines():
        if line.startswith("#"):
            kind = line.lstrip("# ")
            continue
        german, dative, french, italian, *side = (part.strip() for part in line.split("|"))
        found.append(Thing(kind, german, dative or german, french, italian, *map(float, side)))
    return found


def grounds(thing: Thing) -> tuple[str, ...]:
    """Return the political issues from which one would argue about a thing."""
    return tuple(EIGHT_ISSUES[short] for short in GROUNDS[thing.kind].split())


def forms(thing: Thing, measure: Measure) -> dict[str, dict[str, str]]:
    """Return language → slot → words for one issue: what sentences and questions are filled with.

    >>> both = forms(things()[0], MEASURES[0])
    >>> both["de"]["zu"], both["fr"]["dinf"], both["it"]["noun"]
    ('Kurzstreckenflüge zu verbieten', "d'interdire les vols de courte distance", 'un divieto dei voli a corto raggio')
    """
    article, _, bare = thing.italian.partition(" ")
    of, to, on, into = _WITH_ARTICLE[article]
    german = {"o": thing.german, "dat": thing.dative}
    french = {"les": f"les {thing.french}", "des": f"des {thing.french}", "aux": f"aux {thing.french}"}
    italian = {
        "le": thing.italian,
        "delle": f"{of} {bare}",
        "alle": f"{to} {bare}",
        "sulle": f"{on} {bare}",
        "nelle": f"{into} {bare}",
    }
    german |= _filled(zip(("inf", "zu", "ask", "noun"), measure.de, strict=True), german)
    french |= _filled(zip(("inf", "noun"), measure.fr, strict=True), french)
    italian |= _filled(zip(("inf", "noun"), measure.it, strict=True), italian)
    french["dinf"] = ("d'" if re.match("[aeiouéèêh]", french["inf"]) else "de ") + french["inf"]
    return {"de": german, "fr": french, "it": italian}


def _filled(wordings: zip[tuple[str, str]], slots: dict[str, str]) -> dict[str, str]:
    return {name: wording.format_map(slots) for name, wording in wordings}
