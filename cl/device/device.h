/* SPDX-License-Identifier: Apache-2.0
 *
 * Platforms, devices and their capabilities. A device description is plain data (no handle), so that
 * planning needs no device; an open device owns the context, the queues and the program cache. Capabilities
 * come from probe kernels that were built and run, never from an extension string alone and never from a
 * device name; known defects of drivers are in one table of quirks. This folder knows nothing of models or
 * training. */
#ifndef CL_DEVICE_DEVICE_H
#define CL_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/dtype.h"
#include "engine/base/mem.h"
#include "engine/base/scope.h"
#include "engine/base/status.h"

/* Capability bits: id, name (--caps, devices --json), what the probe proves. */
#define OCL_CAP_MAP(X)                                                                                       \
    X(OCL_CAP_LOCAL, "local", "__local memory and barriers over work-groups of 64 items give right results") \
    X(OCL_CAP_WG256, "wg256", "work-groups of 256 items run")                                                \
    X(OCL_CAP_FP64, "fp64", "double arithmetic")                                                             \
    X(OCL_CAP_FP16, "fp16", "half arithmetic")                                                               \
    X(OCL_CAP_INT64_ATOMICS, "int64_atomics", "64-bit integer atomics")                                      \
    X(OCL_CAP_SUBGROUPS, "subgroups", "sub-group reductions")                                                \
    X(OCL_CAP_WIDE_VECTORS, "wide_vectors",                                                                  \
      "float16 arithmetic runs at least as fast as scalar (lane style)")                                     \
    X(OCL_CAP_NONTEMPORAL, "nontemporal", "stores that pass by the caches (__builtin_nontemporal_store)")    \
    X(OCL_CAP_PREFETCH, "prefetch", "asking for a cache line ahead of its use (__builtin_prefetch)")         \
    X(OCL_CAP_PTX, "ptx", "inline PTX")

/* The capabilities of the matrix units have the bits after these (matrix_units.def). */
typedef enum ocl_cap_index {
#define OCL_UNIT(name, caps) caps
#define OCL_UNIT_CAP(id, name, text) id##_INDEX,
    OCL_CAP_MAP(OCL_UNIT_CAP)
#include "cl/device/matrix_units.def"
        OCL_CAP_COUNT
} ocl_cap_index;
enum {
#define OCL_UNIT(name, caps) caps
#define OCL_UNIT_CAP(id, name, text) id = 1 << id##_INDEX,
    OCL_CAP_MAP(OCL_UNIT_CAP)
#include "cl/device/matrix_units.def"
    /* all capabilities of matrix units */
    OCL_CAPS_UNITS = 0
#define OCL_UNIT(name, caps) caps
#define OCL_UNIT_CAP(id, name, text) | id
#include "cl/device/matrix_units.def"
};
#define OCL_CAPS_ALL (~0u)

/* A device's answer about a capability. The capability is used only after a probe kernel and self-tests of
 * the kernels that use it have succeeded, all in a child process (cl/probes/asking.h). */
typedef enum ocl_answer {
    OCL_ANSWER_NOT_ASKED, /* it depends on another capability, which the device does not have */
    OCL_ANSWER_YES,
    OCL_ANSWER_NO,      /* the device or its compiler does not offer it */
    OCL_ANSWER_MASKED,  /* not tested, because the caller masked it */
    OCL_ANSWER_WRONG,   /* its results were wrong. This answer and the next four are losses. */
    OCL_ANSWER_REFUSED, /* building or launching was refused although the device announces the capability */
    OCL_ANSWER_FAILED,  /* another OpenCL call failed; this answer is not remembered */
    OCL_ANSWER_CRASHED, /* the driver ended the process */
    OCL_ANSWER_HUNG,    /* no answer in time */
    OCL_ANSWER_COUNT
} ocl_answer;
#define OCL_REASON_SIZE 240
typedef struct ocl_cap_report {
    ocl_answer answer;
    char reason[OCL_REASON_SIZE]; /* "" when the answer is yes */
} ocl_cap_report;
const char *ocl_answer_name(ocl_answer answer); /* such as "yes" or "crashed" */
/* Whether the answer means that the device should have the capability, but it does not work. */
bool ocl_answer_is_loss(ocl_answer answer);

/* Quirks: effects in which drivers differ (cl/device/quirks.c). */
enum {
    /* callbacks set on events that have already ended are lost: poll first */
    OCL_QUIRK_POLL_EVENTS = 1 << 0,
    OCL_QUIRK_FILL_BY_KERNEL = 1 << 1,  /* clEnqueueFillBuffer is unreliable */
    OCL_QUIRK_NO_SUB_BUFFERS = 1 << 2,  /* informational: the engine uses no sub-buffers */
    OCL_QUIRK_MAX_ALLOC_SOFT = 1 << 3,  /* CL_DEVICE_MAX_MEM_ALLOC_SIZE is not enforced */
    OCL_QUIRK_FLUSH_IS_FINISH = 1 << 4, /* clFlush starts no command: clFinish is used instead */
    OCL_QUIRK_NO_SHUFFLES = 1 << 5,     /* vector shuffles in kernels are unreliable */
    OCL_QUIRK_SERIAL_BUILDS = 1 << 6,   /* programs must be built one after the other */
    OCL_QUIRK_OWN_CACHE = 1 << 7,       /* the driver has its own cache of binaries, so ours is not used */
    /* the driver's cache returns wrong programs: cl/device/listing.c switches it off */
    OCL_QUIRK_STALE_CACHE = 1 << 8,
    OCL_QUIRK_NO_EMULATED_ATTENTION = 1 << 9, /* attention on emulated matrix units does not compile */
    /* not a defect: a failed command makes all later commands of the context fail, so one event shows
     * whether several commands succeeded (cl/command/faults.h) */
    OCL_QUIRK_LASTING_FAILURES = 1 << 10,
    /* sinpi and cospi multiply by pi in f64 without reducing the argument first */
    OCL_QUIRK_PLAIN_TURNS = 1 << 11
};
/* Not a defect of a driver: the checker sets this in the description with which it plans, so that CPU
 * devices accept variants made for GPUs although they are slow there. A macro, because an enumerator must
 * fit an int. */
#define OCL_QUIRK_ANY_STYLE (1u << 31)
/* The checker sets this, too, on CPU devices: kernels of variants that are written for other kinds of
 * devices are compiled without optimisation, because their speed does not matter here and compiling takes
 * most of the time. */
#define OCL_QUIRK_FOREIGN_UNOPTIMISED (1u << 30)

#define OCL_NAME_SIZE 128

struct ocl_tuning;
struct ocl_variant;

/* Limits lower than the driver's, with which the device acts as a smaller one; 0: no limit. Plans keep
 * within these limits, and a request that exceeds one is refused as a driver would refuse it. */
typedef struct ocl_size_limits {
    uint64_t workgroup; /* work-items of a work-group, a power of two */
    uint64_t local;     /* bytes of local memory of a work-group */
    uint64_t buffer;    /* bytes of a single buffer */
    uint64_t memory;    /* bytes of all buffers */
    uint64_t align;     /* least alignment of a tensor's offset in bytes, a power of two */
} ocl_size_limits;

/* A variant, or one tile of it, that planning does not use because the driver refused it
 * (cl/command/fallback.h). */
#define OCL_GIVEN_UP_MAX 32
#define OCL_FORM_TEXT 96
typedef struct ocl_given_up {
    const struct ocl_variant *variant;
    char form[OCL_FORM_TEXT]; /* "": the whole variant */
} ocl_given_up;

typedef struct ocl_device_desc {
    char spec[16];            /* "0:0", platform:device */
    char name[OCL_NAME_SIZE]; /* device name as reported */
    char vendor[OCL_NAME_SIZE];
    char driver[OCL_NAME_SIZE];  /* CL_DRIVER_VERSION */
    char version[OCL_NAME_SIZE]; /* CL_DEVICE_VERSION */
    char platform[OCL_NAME_SIZE];
    char pci[16]; /* "0000:3b:00.0"; "": unknown */
    bool is_cpu, is_gpu;
    uint32_t caps;        /* OCL_CAP_* after masking */
    uint32_t masked_caps; /* capabilities that the caller masked (ocl_open_options) */
    /* limits that the caller set (ocl_size_limits_use); the members below obey them */
    ocl_size_limits limits;
    uint32_t emulated_caps; /* capabilities of matrix units that it emulates (ocl_emulated_units) */
    uint32_t quirks;        /* OCL_QUIRK_* */
    uint32_t compute_units;
    uint32_t max_clock_mhz;
    /* CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT: f32 lanes of a vector register, 1 if unknown. */
    uint32_t vector_floats;
    uint32_t compute_capability; /* NVIDIA: major*10+minor, 0 elsewhere */
    uint64_t max_work_group;     /* work-items, as reported for the device */
    /* Largest group for a plain kernel, which may be smaller than max_work_group; 0: unknown. */
    uint64_t kernel_group_limit;
    /* A group size that worked in a probe although the driver reports a smaller limit for every kernel; 0:
     * the reported limits are real. */
    uint64_t larger_groups;
    uint64_t max_work_item[3];
    uint64_t local_bytes, constant_bytes;
    /* Bytes of local memory that a work-group can have: a kernel with a static array of this size worked. At
     * least local_bytes. NVIDIA's driver reports 48 KiB and runs kernels with more. */
    uint64_t local_proven_bytes;
    /* The same in programs loaded back for sm_90a (cl/program/retarget.h), which may get more local memory;
     * 0: not more than local_bytes. */
    uint64_t local_retargeted_bytes;
    /* The same for local memory passed as an argument of the kernel, in any program; 0: not more than
     * local_bytes. */
    uint64_t local_argument_bytes;
    /* Factor by which CL_KERNEL_LOCAL_MEM_SIZE exceeds the size of a kernel's local arrays. Above 1 only
     * where a probe has shown that the arrays need no more than their size; 0: not asked, the same as 1. */
    uint64_t local_report_factor;
    uint64_t cache_bytes;  /* bytes of the largest cache, 0: unknown */
    uint64_t global_bytes; /* as reported */
    /* bytes: as reported or, if less, what the host and control group allow on CPU devices; only this rank's
     * share where several ranks use the device */
    uint64_t usable_bytes;
    uint64_t max_alloc_bytes; /* largest single buffer */
    uint32_t align_bytes;     /* alignment of every tensor's offset (>= 64, from MEM_BASE_ADDR_ALIGN) */
    bool rounds_correctly;    /* has a build option for correctly rounded f32 division and square root */
    /* f32 numbers below 2^-126 are computed correctly; otherwise they may become 0 */
    bool keeps_subnormals;
    double profiling_resolution_ns;
    ocl_given_up given_up[OCL_GIVEN_UP_MAX];
    int n_given_up;
    /* capabilities that were dropped because of the kernel `suspected_in`; restored if the driver refuses
     * this kernel without them too */
    uint32_t suspected_caps;
    char suspected_in[64];
    const struct ocl_tuning *tuning; /* records for planning (cl/tune/tuning.h), borrowed; NULL: none */
} ocl_device_desc;

/* Whether to use lane style on the device (vectors of sixteen in one work-item), because it was measured to
 * be faster or the caller requested it. */
static inline bool ocl_prefers_lanes(const ocl_device_desc *device)
{
    return (device->caps & OCL_CAP_WIDE_VECTORS) != 0;
}

/* Whether the device has matrix units that multiply operands of this type (f32: as tf32) in any layout. */
bool ocl_has_unit(const ocl_device_desc *device, clt_dtype type);

/* Largest group for a kernel without special needs; a large number if unknown. */
static inline uint64_t ocl_group_limit(const ocl_device_desc *device)
{
    uint64_t limit = device->max_work_group ? device->max_work_group : UINT32_MAX;
    return device->kernel_group_limit && device->kernel_group_limit < limit ? device->kernel_group_limit
                                                                            : limit;
}
/* `wanted`, a power of two, halved until the device allows it. */
static inline uint64_t ocl_group_items(const ocl_device_desc *device, uint64_t wanted)
{
    while (wanted > 1 && wanted > ocl_group_limit(device))
        wanted /= 2;
    return wanted;
}

/* Bytes of local memory of a work-group: as reported, or more if a probe showed more to work. `retargeted`:
 * in retargeted programs; otherwise in programs as the driver builds them. */
static inline uint64_t ocl_desc_max_local(const ocl_device_desc *device, bool retargeted)
{
    uint64_t proven = retargeted ? device->local_retargeted_bytes : device->local_proven_bytes;
    return proven > device->local_bytes ? proven : device->local_bytes;
}

/* A description with which to plan when there is no device: a mid-range GPU without extensions. */
void ocl_desc_generic(ocl_device_desc *out);
const char *ocl_cap_name(int index);
/* Writes "local,wg256,fp64"; returns buffer. */
const char *ocl_caps_text(uint32_t caps, char *buffer, size_t size);
/* Parses a list of capabilities: "all", "none", "local,fp64", "-local" (all but that one). CLT_EUSAGE names
 * the nearest one. */
clt_status ocl_caps_parse(const char *text, uint32_t *mask);
/* The same for a --caps list, which may also contain limits: "-fp64,workgroup=64,local=16K". A list of
 * limits alone keeps all capabilities. */
clt_status ocl_caps_parse_limits(const char *text, uint32_t *mask, ocl_size_limits *limits);

/* Limits (size_limits.c). They hold for this process. An environment variable passes them to the processes
 * that it starts from then on, because each of these describes devices, too. */
#define OCL_SIZE_LIMITS_VARIABLE "CLTRAIN_LIMITS"
#define OCL_SIZE_LIMITS_TEXT 160
/* Parses one limit, "workgroup=64" or "local=16K", and stores it in its member. CLT_EUSAGE. */
clt_status ocl_size_limits_read(const char *word, ocl_size_limits *out);
bool ocl_size_limits_any(const ocl_size_limits *limits);
/* Writes "workgroup=64,local=16K", "" for none; returns buffer. */
const char *ocl_size_limits_text(const ocl_size_limits *limits, char *buffer, size_t size);
/* Sets the limits; to be called before the first device is described. If `limits` has none, the limits of
 * the environment stay. */
clt_status ocl_size_limits_use(const ocl_size_limits *limits);
clt_status ocl_size_limits_in_use(ocl_size_limits *out);
/* Lowers the members of a description to its limits; may be called again. */
void ocl_size_limits_apply(ocl_device_desc *desc);
/* Whether the device acts as a weaker one: capabilities are masked, or there are limits. */
static inline bool ocl_is_masked(const ocl_device_desc *device)
{
    return device->masked_caps != 0 || ocl_size_limits_any(&device->limits);
}
/* Writes the limits and the missing capabilities that make it a weaker device, such as "fp64,workgroup=64";
 * returns buffer. */
const char *ocl_masked_text(const ocl_device_desc *device, char *buffer, size_t size);
const char *ocl_quirk_name(uint32_t bit);

/* Name of a file about one device with its driver, readable and different for each hash:
 * "nvidia-h100-80gb-hbm3-0123456789abcdef.json". The hash is of platform, name, driver and compute units. */
#define OCL_DEVICE_FILE_NAME 96
void ocl_device_file_name(const ocl_device_desc *device, char *out, size_t size);

/* To be called before the first OpenCL call of a process: divides a CPU device's memory (usable_bytes)
 * among the `local_ranks` ranks on this host, and its threads (POCL_MAX_PTHREAD_COUNT) among the
 * `core_ranks` ranks that share this rank's cores. */
void ocl_prepare_process(int local_ranks, int core_ranks);

/* Every device of every platform, in platform order. CLT_EDEVICE with an explanation (see doctor) when there
 * is none. The array is freed with free(). caps are not probed here (probing needs an open device): caps ==
 * 0. */
clt_status ocl_list_devices(ocl_device_desc **out, int *count);

/* Number of devices among which ranks would be distributed: the devices of one platform that match SPEC
 * (NULL: as for ocl_open_options). *cpu: they are CPUs, which ranks share. CLT_EDEVICE as for
 * ocl_device_open. */
clt_status ocl_count_devices(const char *spec, int *count, bool *cpu);

typedef struct ocl_device ocl_device;
typedef struct ocl_event ocl_event; /* memory.h */
typedef enum ocl_queue {
    OCL_QUEUE_COMPUTE,
    OCL_QUEUE_COPY,
    /* for reads to the host and writes from it, beside the other two; only after ocl_device_open_queue */
    OCL_QUEUE_OUT,
    OCL_QUEUE_IN,
    OCL_QUEUE_COUNT
} ocl_queue;

/* Whether kernels use lane style (capability wide_vectors) or groups. ASKED: the faster one is found by
 * timing when the device's capabilities are tested. There is no timing when a checkpoint states the style of
 * its run, because the two styles round sums differently. */
typedef enum ocl_style { OCL_STYLE_ASKED, OCL_STYLE_LANES, OCL_STYLE_GROUPS } ocl_style;
const char *ocl_style_name(ocl_style style); /* "asked", "lanes" or "groups" */
bool ocl_style_from_name(const char *name, ocl_style *out);

typedef struct ocl_open_options {
    const char *spec;   /* the SPEC of --device; NULL: the first GPU, else the CPU */
    uint32_t caps_mask; /* OCL_CAPS_ALL, or fewer to imitate a weaker device */
    bool profiling;     /* queues with CL_QUEUE_PROFILING_ENABLE */
    /* Profiling on CPU devices only, where it has no measurable cost; with drivers of GPUs work took up to
     * 1.8 times as long. */
    bool profiling_on_cpu;
    int local_rank;  /* picks the matching device number local_rank, if there are several GPUs */
    bool checker;    /* for the checker: capabilities that failed only their self-test are used, too */
    bool ask_again;  /* tests all capabilities again, ignoring remembered answers */
    ocl_style style; /* LANES, GROUPS: use this style if the device supports it, even if it is slower */
} ocl_open_options;

/* Opens a device with its context, an in-order compute queue and an in-order copy queue. Its capabilities
 * are read from the cache, or tested now. A device that cannot run kernels is skipped with a warning, unless
 * SPEC is its index or name. CLT_EDEVICE names the SPEC, the devices that exist, and what to do. */
clt_status ocl_device_open(const ocl_open_options *options, ocl_device **out);
/* Leaves this process 1/ranks of the device's memory, because `ranks` processes, this one included, use the
 * GPU. */
void ocl_device_share(ocl_device *device, int ranks);
void ocl_device_close(ocl_device *device);
CLT_SCOPED_POINTER(ocl_device, ocl_device_close)
/* Creates an in-order queue that a device does not have from the start. */
clt_status ocl_device_open_queue(ocl_device *device, ocl_queue queue);
/* Registers a function to be called when the last open device of the process has been closed; it replaces an
 * earlier one. For libraries that have caches. */
void ocl_device_when_last_closes(void (*fn)(void));
const ocl_device_desc *ocl_device_describe(const ocl_device *device);
/* The state of a capability of an open device, by the capability's index. */
ocl_cap_report ocl_device_cap_report(const ocl_device *device, int cap);

/* ocl_doctor: looks for the reasons why there is no device: ICD files, the library that each one names and
 * whether it loads (with the loader's message), OCL_ICD_VENDORS and similar variables, /dev nodes and their
 * permissions, platforms without a device. Reports each finding; *healthy becomes true if at least one
 * device could be opened and a probe ran. */
typedef enum ocl_finding_level {
    OCL_FINDING_OK,
    OCL_FINDING_NOTE,
    OCL_FINDING_WARN,
    OCL_FINDING_ERROR
} ocl_finding_level;
typedef void (*ocl_finding_fn)(void *context, ocl_finding_level level, const char *text, const char *advice);
clt_status ocl_doctor(ocl_finding_fn report, void *context, bool *healthy);

/* Turns an OpenCL code into a status and a message such as "doing this on that object: CL_OUT_OF_RESOURCES
 * (-5)". */
clt_status ocl_fail(int cl_code, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
const char *ocl_error_name(int cl_code);

/* Counters of a device since it was opened, for reports and tests. */
typedef struct ocl_counters {
    uint64_t programs_built, kernels_created, buffers_created, kernels_enqueued, library_calls, copies, fills,
        host_waits;
    uint64_t programs_loaded;      /* part of programs_built: loaded from our cache of binaries */
    uint64_t programs_new;         /* programs that were in no cache when they were requested */
    uint64_t programs_in_children; /* part of programs_built: compiled earlier by a child process */
    uint64_t binaries_refused;     /* cached binaries that were damaged or that the driver rejected */
    double build_seconds;
} ocl_counters;
ocl_counters ocl_device_counters(const ocl_device *device);

#endif
