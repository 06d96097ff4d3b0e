"""What differs between operating systems, each part twice: `posix_files` and `windows_files` are `files`.

No other room uses what only some systems have, or asks which system this is. `forks` is POSIX only, for
programs that asked `CAN_FORK`; `names` is the same everywhere.
"""
