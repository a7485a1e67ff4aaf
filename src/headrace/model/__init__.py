"""The nouns: frozen dataclasses and enums, standard library only. No I/O, no clock."""
