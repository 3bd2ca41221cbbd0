"""Tests of `chaos/toxiproxy`; a package named like that here would hide the client library of the same name."""
