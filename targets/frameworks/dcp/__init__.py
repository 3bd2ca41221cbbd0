"""`torch.distributed.checkpoint` (DCP), used as its documentation says, where public bugs of it and around it show."""
