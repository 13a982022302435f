# SPDX-License-Identifier: Apache-2.0
#
# Two hosts on one machine: network name spaces with host names of their own, joined by a bridge. For scripts that start ranks on both
# of them; sourced, never run. Needs root, ip and unshare, and a folder $work.
#
#   hosts_refused         says why there can be no such hosts, and fails when nothing is known to be in the way
#   make_hosts SLOTS      makes them, with so many ranks on each, and $work/start.sh, which is mpirun for both: start.sh -np N PROGRAM ...
#                         $far_first: a command that the far host runs before its ranks, such as a mount, which only that host sees
#                         $work/first.sh COMMAND... runs on the first host, $work/agent.sh ADDRESS COMMAND... on either, as ssh does,
#                         $work/hosts lists both
#   await_joined          waits until the two reach each other; fails if they do not
#   limit_link RATE       as "1gbit", between the two; fails where the system cannot
#   remove_hosts
tag=$$ # of the name spaces and links, whose names are at most 15 characters long
net=10.$((tag % 200 + 20)).77

hosts_refused() {
    if [ "$(id -u)" -ne 0 ]; then echo 'network name spaces need root'; return 0; fi
    command -v ip >/dev/null && command -v unshare >/dev/null && return 1
    echo 'ip or unshare is not installed (packages iproute2, util-linux)'
}

remove_hosts() {
    local i process
    for i in 0 1; do
        for process in $(ip netns pids "c$i.$tag" 2>/dev/null); do kill -9 "$process" 2>/dev/null; done
        ip netns del "c$i.$tag" 2>/dev/null
    done
    ip link del "cb$tag" 2>/dev/null
}

make_links() {
    local i
    ip link add "cb$tag" type bridge && ip link set "cb$tag" up || return 1
    for i in 0 1; do
        ip netns add "c$i.$tag" && ip link add "cv$i.$tag" type veth peer name "ce$i.$tag" &&
            ip link set "cv$i.$tag" master "cb$tag" up && ip link set "ce$i.$tag" netns "c$i.$tag" &&
            ip netns exec "c$i.$tag" ip addr add $net.$((i + 1))/24 dev "ce$i.$tag" &&
            ip netns exec "c$i.$tag" ip link set "ce$i.$tag" up && ip netns exec "c$i.$tag" ip link set lo up || return 1
    done
    ip netns exec "c0.$tag" unshare -u true
}

# await_joined: until a packet of the far host reaches the near one, whose closed port answers. A link that
# has just come up carries no packets for a moment.
await_joined() {
    local i
    for i in $(seq 100); do
        if ip netns exec "c1.$tag" env LC_ALL=C bash -c 'exec 3<>"/dev/tcp/$0/9"' "$net.1" 2>&1 | grep -q refused; then return 0; fi
    done
    echo "the hosts $net.1 and $net.2 do not reach each other after $i trials" >&2
    return 1
}

make_hosts() {
    { make_links && await_joined; } || { remove_hosts; return 1; }
    # The program that mpirun calls instead of ssh: ADDRESS COMMAND...
    cat >"$work/agent.sh" <<SH
#!/bin/sh
address=\$1
shift
case \$address in $net.1) i=0 first=: ;; *) i=1 first='${far_first:-:}' ;; esac
exec ip netns exec c\$i.$tag unshare -u sh -c "hostname h\$i; \$first; \$*"
SH
    printf '%s slots='"$1"'\n' $net.1 $net.2 >"$work/hosts"
    cat >"$work/first.sh" <<SH
#!/bin/sh
exec ip netns exec c0.$tag unshare -u sh -c 'hostname h0; exec "\$@"' first "\$@"
SH
    cat >"$work/start.sh" <<SH
#!/bin/sh
exec "$work/first.sh" mpirun --hostfile "$work/hosts" --mca plm_rsh_agent "$work/agent.sh" \\
    --mca btl tcp,self,vader --mca btl_tcp_if_include $net.0/24 --mca oob_tcp_if_include $net.0/24 --oversubscribe --bind-to none \\
    --mca mpi_yield_when_idle 1 --mca oob_tcp_keepalive_time 2 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 2 "\$@"
SH
    chmod +x "$work/agent.sh" "$work/first.sh" "$work/start.sh"
}

limit_link() {
    local i
    for i in 0 1; do tc qdisc add dev "cv$i.$tag" root tbf rate "$1" burst 1mb latency 50ms || return 1; done
}
