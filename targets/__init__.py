"""Systems under test: ordinary programs that the harness starts and never imports."""
