"""What all responses of the API have in common."""

from pydantic import BaseModel, ConfigDict


class ResponseModel(BaseModel):
    model_config = ConfigDict(from_attributes=True, extra="forbid", use_attribute_docstrings=True)
