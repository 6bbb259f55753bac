"""Names of container images, spelled as container runtimes spell them on nodes."""

from functools import lru_cache

REGISTRY = "docker.io"  # of a name that names none


@lru_cache(maxsize=4096)
def full_name(image: str) -> str:
    """`vllm/vllm-openai` as `docker.io/vllm/vllm-openai:latest`; "" stays "".

    The first part is a registry where it has a dot or a port, or is localhost; one word alone is of Docker's library.
    """
    if not image:
        return ""
    first, slash, _ = image.partition("/")
    if not slash:
        image = f"{REGISTRY}/library/{image}"
    elif not ("." in first or ":" in first or first == "localhost"):
        image = f"{REGISTRY}/{image}"
    tagged = "@" in image or ":" in image.rpartition("/")[2]
    return image if tagged else f"{image}:latest"
