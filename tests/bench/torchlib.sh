# SPDX-License-Identifier: Apache-2.0
#
# PyTorch as a peer: finds its settings on this machine and the best of them for a case, and runs it once. Sourced after benchlib.sh
# by the benchmarks that train something. "At its best" means: the better of eager and compiled, a malloc that does not return
# memory to the system, MKL without its check for an Intel CPU on other CPUs, and the best OpenBLAS kernels for old releases. It
# must not know what is measured on cltrain's side.

torch_new= torch_old=
trial=(--warmup 2 --steps 3) # of one setting; steps of milliseconds need more
# torch_find: sets torch_new and torch_old to interpreters that work, or says why not.
torch_find() {
    local py text
    if $self_test; then return 0; fi
    for py in BENCH_PYTHON BENCH_PYTHON_OLD; do
        if [ -z "${!py:-}" ]; then skip "PyTorch ($py)" "$py is not set"; continue; fi
        if ! text=$("${!py}" "$here/peer_torch.py" --probe 2>/dev/null); then skip "PyTorch ($py)" "${!py} has no PyTorch"; continue; fi
        echo "peer: PyTorch $text"
        if [ "$py" = BENCH_PYTHON ]; then torch_new=${!py} torch_new_has=$text; else torch_old=${!py} torch_old_has=$text; fi
    done
}
allocator_library() {
    if [ -n "${BENCH_ALLOCATOR:-}" ]; then echo "$BENCH_ALLOCATOR"; return; fi
    ldconfig -p 2>/dev/null | sed -n -E 's/.*libjemalloc\.so\.2 .*=> (.*)/\1/p' | head -n 1
}
# MKL uses its fast kernels only if the CPU reports Intel as its vendor; on AMD, users override that
# function, and so does this script.
mkl_library() {
    grep -q -m 1 AuthenticAMD /proc/cpuinfo || return 0
    [ -e "$work/mkl.so" ] ||
        echo 'int mkl_serv_intel_cpu_true(void) { return 1; }' | "${CC:-cc}" -x c -shared -fPIC -o "$work/mkl.so" - || return 0
    echo "$work/mkl.so"
}
# torch_settings new|old MODEL: lines "name;environment;arguments".
torch_settings() {
    local has="${torch_new_has:-}" library mkl memory name="glibc malloc" core
    [ "$1" = old ] && has="${torch_old_has:-}"
    memory="MALLOC_TRIM_THRESHOLD_=17179869184 MALLOC_MMAP_MAX_=0 MALLOC_TOP_PAD_=268435456"
    library=$(allocator_library)
    if [ -n "$library" ]; then
        name=jemalloc memory="LD_PRELOAD=$library MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always"
    fi
    if [ "$1" = old ]; then
        for core in Zen SkylakeX; do
            if [ "$core" = SkylakeX ] && ! has_cpu_flag avx512f; then continue; fi
            if [ "$2" = resnet ]; then
                echo "eager, channels last, OpenBLAS $core, $name;OPENBLAS_CORETYPE=$core $memory;--channels-last"
                $quick || echo "eager, OpenBLAS $core, $name;OPENBLAS_CORETYPE=$core $memory;"
                continue
            fi
            echo "eager, OpenBLAS $core, $name;OPENBLAS_CORETYPE=$core $memory;--attention matrix --optimizer foreach"
            # Few small tensors: the plain loop costs less than gathering them.
            [ "$2" = mlp ] && echo "eager, OpenBLAS $core, $name, plain AdamW;OPENBLAS_CORETYPE=$core $memory;--attention matrix --optimizer loop"
            $quick || echo "eager, OpenBLAS $core, $name, gradients kept;OPENBLAS_CORETYPE=$core $memory;--attention matrix --optimizer foreach --grads kept"
        done
        return
    fi
    mkl=
    case $has in *mkl*) mkl=$(mkl_library) ;; esac
    if [ -n "$mkl" ]; then
        case $memory in
        LD_PRELOAD=*) memory="LD_PRELOAD=$mkl:${memory#LD_PRELOAD=}" ;;
        *) memory="LD_PRELOAD=$mkl $memory" ;;
        esac
        name="$name, MKL told Intel"
    fi
    if [ "$2" = resnet ]; then
        echo "eager, channels last, $name;$memory;--channels-last"
        $quick || echo "eager, $name;$memory;"
        $quick || echo "eager as installed, channels last;NONE=1;--channels-last"
        case $has in *compile*) $quick || echo "compiled, channels last, $name;$memory;--channels-last --mode compile" ;; esac
        return
    fi
    echo "eager, $name;$memory;"
    $quick || echo "eager as installed;NONE=1;"
    case $has in
    *compile*)
        if [ "$2" = mlp ]; then
            echo "compiled, $name;$memory;--mode compile"
            echo "all compiled, $name;$memory;--mode compile --compile-update"
        elif ! $quick; then
            echo "compiled, $name;$memory;--mode compile"
        fi
        ;;
    esac
}
# torch_run PYTHON ENVIRONMENT ARGUMENTS...: one process; its JSON line in $work/torch.json.
torch_run() {
    local python=$1 environment=$2
    shift 2
    mkdir -p "$cache/inductor"
    # shellcheck disable=SC2086 # the environment is words
    watched '{' env TORCHINDUCTOR_CACHE_DIR="$cache/inductor" OMP_NUM_THREADS="$threads" MKL_NUM_THREADS="$threads" \
        OPENBLAS_NUM_THREADS="$threads" $environment "$python" "$here/peer_torch.py" --threads "$threads" "$@" &&
        grep '^{' "$work/out" | tail -n 1 >"$work/torch.json"
}
# torch_best new|old CASE MODEL ARGUMENTS...: tries every setting briefly; sets best_name, best_environment, best_arguments.
torch_best() {
    local which=$1 name=$2 model=$3 python=$torch_new label environment arguments ms best=
    shift 3
    best_name=
    [ "$which" = old ] && python=$torch_old
    [ -n "$python" ] || return 1
    torch_settings "$which" "$model" >"$work/settings"
    while IFS=';' read -r label environment arguments; do
        case $label in *"${BENCH_SETTINGS:-}"*) ;; *) continue ;; esac
        # A first run that is not counted lets a compiled model fill its cache.
        case $arguments in *compile*)
            # shellcheck disable=SC2086
            torch_run "$python" "$environment" "$@" $arguments --warmup 1 --steps 1 </dev/null ;;
        esac
        # shellcheck disable=SC2086
        if ! torch_run "$python" "$environment" "$@" $arguments "${trial[@]}" </dev/null; then
            echo "  $name: PyTorch, $label: failed: $(tail -n 1 "$work/err")"
            record "$name" "PyTorch $which" failed - - "$label"
            continue
        fi
        ms=$(json_line "$work/torch.json" step_ms)
        printf '  %s: trying PyTorch %s, %s: %s ms\n' "$name" "$(torch_version)" "$label" "$ms"
        record "$name" "PyTorch $(torch_version)" trial_ms "$ms" ms "$label"
        if [ -z "$best" ] || [ "$(calc "$ms < $best")" = 1 ]; then
            best=$ms best_name=$label best_environment=$environment best_arguments=$arguments
        fi
    done <"$work/settings"
    [ -n "$best_name" ]
}
torch_version() { sed -n -E 's/.*"torch": "([^"]*)".*/\1/p' "$work/torch.json"; }
# torch_sample PYTHON CASE SIDE ENVIRONMENT ARGUMENTS...: one measured run.
torch_sample() {
    local python=$1 name=$2 side=$3
    shift 3
    if ! torch_run "$python" "$@"; then echo "  $name: $side failed: $(tail -n 1 "$work/err")"; return 1; fi
    sample "$name" "$side" step_ms "$(json_line "$work/torch.json" step_ms)"
    sample "$name" "$side" peak_rss_mib "$rss_mib"
}
