"""Programs that use torch.distributed and torchrun as their documentation says; see README.md."""
