"""The query parameter of every page that is read in parts."""

from typing import Annotated

from msgspec import Meta

PageNumber = Annotated[int, Meta(ge=1, le=1000, description="which page, from 1")]
