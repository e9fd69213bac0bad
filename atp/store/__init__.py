"""The database: experiments, slots, attempts, spans, calls, grades, journal, and bodies by digest.

`atp.store.store.Store` is the way in, `atp.store.rows` holds what it takes and gives. Nothing is
imported here, because SQLAlchemy alone costs more than the start of most commands.
"""
