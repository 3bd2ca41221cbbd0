"""The clients: an open-model load by Locust, whose every request is a fact, compared with the golden model."""
