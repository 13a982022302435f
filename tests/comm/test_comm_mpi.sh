#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-cost: 10 ctest-optimise: no
#
# The MPI transport under mpirun: collectives on 2, 3 and 4 ranks, a job that ends with the exit code of the rank that failed, a
# missing module, and a launcher that does not belong to the module's MPI library.
# Open MPI unloads plug-ins whose memory it never frees, so the leak checker cannot name them in lsan.supp. Leaks of comm/ are found
# by test_comm without a launcher. The plug-ins also replace the alternative signal stack that AddressSanitizer gives each thread
# and expects to find again. So mpi_lib.sh sets ASAN_OPTIONS.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"

build=${CLTRAIN_BUILD_DIR:?set it to the build folder}
program=$build/tests/test_comm
log=$out
die() { echo "FAIL: $1"; cat "$log"; exit 1; }
[ -x "$program" ] || die "$program is missing"
export CLTRAIN_MODULE_DIR=$build
run() { guarded mpirun --oversubscribe --bind-to none "$@" >"$log" 2>&1 </dev/null; }

for ranks in 2 3 4; do
    run -np $ranks "$program" || die "collectives on $ranks ranks ended with code $?"
    [ "$(grep -c 'PASSED  \] 6 test' "$log")" -eq $ranks ] || die "not every one of $ranks ranks ran its 6 tests"
    echo "ok: collectives on $ranks ranks"
done

run -np 1 "$program" && die "one rank cannot have a rank that differs, its test must fail"
grep -q 'mpi_check_equal_names_the_rank' "$log" || die "one rank under mpirun failed elsewhere"

run -np 3 "$program" abort
[ $? -eq 6 ] || die "abort by one rank: the job must end with its code 6"
echo "ok: one rank ends the job while the others wait"

run -np 2 "$program" stuck
[ $? -eq 10 ] || die "abort from inside a collective: the job must end with code 10"
echo "ok: a rank that is stuck in a collective ends the job"

run -np 2 "$program" failed-work
[ $? -eq 9 ] || die "failed device work on one rank: the job must end with code 9"
grep -q 'rank 0: .*device work' "$log" || die "the rank with the failed device work must name itself"
echo "ok: failed device work on one rank ends the job"

# Without the module every process reports which files were tried. The program's own folder must not contain it either.
empty=$work/empty
mkdir "$empty"
cp "$program" "$empty/"
if CLTRAIN_MODULE_DIR=$empty/nowhere run -np 2 "$empty/test_comm"; then
    # In the install folder an installed module of the same version may be found, as intended.
    echo "ok: (an installed module was used)"
else
    grep -q "$empty/nowhere/cltrain_comm_mpi.so: no such file" "$log" || die "the message must name the files that were tried"
    grep -q "$empty/cltrain_comm_mpi.so: no such file" "$log" || die "the program's own folder must be tried"
    echo "ok: a missing module is named"
fi

# A launcher of another MPI: its environment announces ranks that the module's library does not know.
env -u OMPI_COMM_WORLD_SIZE PMI_SIZE=4 PMI_RANK=0 timeout "$hang" "$program" >"$log" 2>&1
[ $? -eq 9 ] || die "a launcher that does not fit the MPI library must end with code 9"
grep -q 'the launcher started 4 processes' "$log" || die "the message must say what does not fit"
echo "ok: a foreign launcher is recognised"
