"""doctor: what is wrong here, what to do about it, and the repairs that can do no harm.

Each check is a function that yields findings, listed in `checks.CHECKS` and in
docs/doctor.md. To add one, write the function in the module of its subject and list it.
"""
