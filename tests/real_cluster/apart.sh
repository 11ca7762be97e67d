#!/bin/sh
# Runs a command as on a node of its own: `sh apart.sh COMMAND...`. Its network is loopback alone, on which the node's address lies; what it
# mounts, it sees alone; the kernel's settings that kubelet turns are copies; what is left in /run, /var/lib and /var/log goes with it.
set -eu
export QOSM_NODE_ADDRESS=192.168.77.1
exec unshare --net --mount --propagation private sh -euc '
  mount --make-rshared /
  mount -t tmpfs tmpfs /run
  for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    mkdir -p "/run/sys/${setting%/*}"
    cat /proc/sys/$setting >/run/sys/$setting
    mount --bind /run/sys/$setting /proc/sys/$setting
  done
  for place in lib log; do
    mkdir -p /run/var/$place/new /run/var/$place/work
    mount -t overlay overlay -o lowerdir=/var/$place,upperdir=/run/var/$place/new,workdir=/run/var/$place/work /var/$place
  done
  ip link set lo up
  ip address add $QOSM_NODE_ADDRESS/32 dev lo
  exec "$@"' sh "$@"
