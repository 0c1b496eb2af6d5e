"""The JSON API: endpoints, the models of requests and responses, and their OpenAPI description."""
