"""Which ways of saying who we are to a Prometheus go together."""

from collections.abc import Callable, Collection


def login_problem(given: Collection[str], named: Callable[[str], str]) -> str | None:
    """What is wrong, in a sentence; None when nothing is.

    `given`: the fields of a login that are set, by the settings' names without `prometheus_`. `named`: what a field is
    called where the person set it.
    """
    if ("username" in given) != ("password_file" in given):
        return f"set {named('username')} and {named('password_file')} together"
    logins = [field for field in ("token_file", "username", "sigv4_region") if field in given]
    if len(logins) > 1:
        return f"{' and '.join(map(named, logins))} are {len(logins)} logins: choose one"
    if "key_file" in given and "certificate_file" not in given:
        return f"{named('key_file')} is of no use without {named('certificate_file')}"
    return None
