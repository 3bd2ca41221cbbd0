"""chaos proves that ML systems recover: break them at an exact moment, judge from recorded facts."""

__version__ = "0.1.0"
