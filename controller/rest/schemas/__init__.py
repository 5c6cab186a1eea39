"""The bodies of answers, as models: what is sent is made of them, and the OpenAPI description too."""
