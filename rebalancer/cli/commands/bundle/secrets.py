"""What looks like a secret, in any text that leaves the machine.

Nothing that we write or read should hold one; people paste them into reasons, annotations and URLs all the same.
"""

import re
from typing import Final

GONE: Final = "[removed]"
_NAMES: Final = r"[\w.-]*(?:passw(?:or)?d|secret|token(?!s)|api[-_]?key|access[-_]?key|credential|authorization)[\w.-]*"
_VALUE: Final = r"(?!\[removed|/|null\b|bearer |basic )[^\s\"',;&}]+"
_NAMED: Final = re.compile(_NAMES, re.IGNORECASE)
_PATTERNS: Final = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), GONE),
    (re.compile(r"(?<=://)[^\s/@\"']+@"), f"{GONE}@"),  # http://user:password@host
    (re.compile(r"\beyJ[\w-]{6,}(?:\.[\w-]*){1,4}"), GONE),  # JWTs, a service account's too
    (re.compile(r"\b(bearer|basic)\s+[\w+/.~=-]{8,}", re.IGNORECASE), rf"\1 {GONE}"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), GONE),
    (re.compile(r"\b(?:gh[opsu]_|github_pat_|glpat-|xox[abp]-|sk-|hf_)[\w-]{16,}"), GONE),
    # password=..., "token": "...", --api-key ...; of a file only the path is told, which is none
    (re.compile(rf"({_NAMES}[\"']?\s*[:=]\s*[\"']?|--{_NAMES}\s+){_VALUE}", re.IGNORECASE), rf"\1{GONE}"),
)


def without_secrets(text: str) -> str:
    """The text with what looks like a secret taken out."""
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


def names_a_secret(key: str) -> bool:
    """Whether what stands under this key is one, whatever it looks like."""
    return _NAMED.fullmatch(key) is not None
