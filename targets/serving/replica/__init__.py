"""One replica: model and server in one process, so that nothing answers for a model that has died."""
