"""Judges: does a passage support a perspective?"""
