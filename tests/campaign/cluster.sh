#!/usr/bin/env bash
# A real SLURM on one host: two nodes with eight fake GPUs each (n1, n2: partition gpu) and sixteen CPU nodes in pairs
# (c1 and c2: partition cpu1, c3 and c4: partition cpu2, ... cpu8), so that studies run beside each other undisturbed
# (partition fleet: c1 to c8).
#     cluster.sh start DIR     needs root and: apt-get install slurmctld slurmd slurm-client munge
#     cluster.sh stop DIR
# No accounting (the commonest surprise on small clusters); jobs find the configuration at /etc/slurm/slurm.conf, which becomes a link.
# GPUs are plain files: SLURM counts and assigns them (SLURM_GPUS_ON_NODE; it sets no CUDA_VISIBLE_DEVICES for them), nothing runs on them.
set -euo pipefail
command=${1:?start or stop}
dir=$(mkdir -p "${2:?a folder}" && cd "$2" && pwd)
host=$(hostname -s)

write_configuration() {
    cat >"$dir/slurm.conf" <<EOF
ClusterName=fake
SlurmctldHost=$host
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmdPidFile=$dir/run/slurmd.%n.pid
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
SlurmctldPort=16817
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
GresTypes=gpu
ReturnToService=2
SlurmdTimeout=60
SlurmctldTimeout=20
KillWait=10
MinJobAge=300
SchedulerParameters=bf_interval=5,sched_interval=5
SlurmdParameters=config_overrides
NodeName=n[1-2] NodeHostname=$host NodeAddr=127.0.0.1 Port=[17001-17002] CPUs=8 RealMemory=64000 Gres=gpu:h200:8 State=UNKNOWN
NodeName=c[1-16] NodeHostname=$host NodeAddr=127.0.0.1 Port=[17003-17018] CPUs=2 RealMemory=40000 State=UNKNOWN
PartitionName=gpu Nodes=n[1-2] Default=NO MaxTime=INFINITE State=UP
PartitionName=fleet Nodes=c[1-8] Default=NO MaxTime=INFINITE State=UP
EOF
    for pair in {1..8}; do
        echo "PartitionName=cpu$pair Nodes=c$((2 * pair - 1)),c$((2 * pair)) Default=NO MaxTime=INFINITE State=UP"
    done >>"$dir/slurm.conf"
    echo "NodeName=n[1-2] Name=gpu Type=h200 File=$dir/fake/gpu[0-7]" >"$dir/gres.conf"
}

controller_answers() { scontrol ping | grep -q "is UP"; }
nodes_are_idle() { [ "$(sinfo --noheader -N -o '%N %T' | sort -u | grep -c ' idle$')" = 18 ]; }

wait_for() { # what it is, and the function that succeeds once it is there
    for _ in {1..600}; do "$2" 2>/dev/null && return; sleep 0.5; done
    echo "error: waited 300 s for $1" >&2
    exit 1
}

case $command in
    start)
        mkdir -p "$dir"/{log,state,run,fake} "$dir"/spool/{n{1..2},c{1..16}} /run/munge /etc/slurm
        touch "$dir"/fake/gpu{0..7}
        write_configuration
        ln -sfn "$dir/slurm.conf" /etc/slurm/slurm.conf
        ln -sfn "$dir/gres.conf" /etc/slurm/gres.conf
        chown munge:munge /run/munge && chmod 755 /run/munge
        munge -n >/dev/null 2>&1 || runuser -u munge -- /usr/sbin/munged
        slurmctld -i
        wait_for "the controller" controller_answers
        for node in n{1..2} c{1..16}; do slurmd -N "$node"; done
        wait_for "18 idle nodes" nodes_are_idle
        sinfo -N -o "%N %T %P %G %c %m"
        ;;
    stop)
        for file in "$dir"/run/*.pid; do [ -e "$file" ] && kill "$(cat "$file")" 2>/dev/null || true; done
        ;;
    *) echo "error: start or stop, not $command" >&2; exit 2 ;;
esac
