"""The files that a release publishes: packages, images, chart, site, and their checksums."""
