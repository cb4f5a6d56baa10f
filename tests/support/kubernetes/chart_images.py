"""Images for tests of the chart, which has no defaults for them."""

from __future__ import annotations

IMAGES = ("image.repository=kafkaspark/operator", "job.image.repository=kafkaspark/sparkapp")
"""Values for ``helm --set``; later values take precedence."""
