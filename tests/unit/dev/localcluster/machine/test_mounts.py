"""Finding the mounts below the cluster's folders."""

from pathlib import Path

from localcluster.machine.mounts import below

MOUNTINFO = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:20 / /var/lib/kafkaspark/kubelet/pods/1/token rw - tmpfs tmpfs rw
31 30 0:21 / /var/lib/kafkaspark/kubelet/pods/1/token/deeper rw - tmpfs tmpfs rw
32 22 0:22 / /var/lib/kafkaspark-of-someone-else rw - tmpfs tmpfs rw
33 22 0:23 / /run/kafkaspark/with\\040blank rw - tmpfs tmpfs rw
"""


def test_mounts_come_in_the_order_in_which_they_can_be_unmounted() -> None:
    assert below([Path("/var/lib/kafkaspark"), Path("/run/kafkaspark")], MOUNTINFO) == [
        Path("/run/kafkaspark/with blank"),
        Path("/var/lib/kafkaspark/kubelet/pods/1/token/deeper"),
        Path("/var/lib/kafkaspark/kubelet/pods/1/token"),
    ]
