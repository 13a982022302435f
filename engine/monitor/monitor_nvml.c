/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of NVIDIA's GPUs, from the driver's library NVML. The functions of NVML are looked up by name, the
 * newest version first, since the program is not linked with it; if a function is missing or fails, its
 * figure stays NAN. On a GPU that is divided (MIG), memory is measured for the run's part alone. Power,
 * heat, clocks and errors are measured for the whole GPU. How busy one part is cannot be measured.
 * CLTRAIN_NVML names another library. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/monitor/monitor_source.h"

/* --- the part of the library's interface that is used --- */

enum { NVML_OK = 0, NVML_NOT_FOUND = 6, NVML_NO_DRIVER = 9, NVML_GPU_LOST = 15, NVML_OTHER_VERSION = 18 };
/* reasons for a lower clock */
#define FOR_POWER (0x4ULL | 0x80ULL)
#define FOR_HEAT (0x20ULL | 0x40ULL)
#define BY_HARDWARE 0x8ULL
#define EVENT_XID 8ULL
#define MOST_PARTS 64 /* parts of a divided GPU; there are at most seven */
enum { CLOCK_SM = 1, CLOCK_MEMORY = 2, ECC_CORRECTED = 0, ECC_UNCORRECTED = 1, SENSOR_GPU = 0 };

typedef void *nvml_device, *nvml_events;
typedef struct nvml_shares {
    unsigned gpu, memory; /* percent */
} nvml_shares;
typedef struct nvml_memory_1 {
    unsigned long long total, free, used;
} nvml_memory_1;
typedef struct nvml_memory_2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
} nvml_memory_2;
typedef struct nvml_heat {
    unsigned version, sensor;
    int celsius;
} nvml_heat;
typedef struct nvml_fan {
    unsigned version, fan, rpm;
} nvml_fan;
typedef struct nvml_event {
    nvml_device device;
    unsigned long long type, data;
    unsigned instance, compute_instance;
} nvml_event;
_Static_assert(sizeof(nvml_memory_2) == 40 && sizeof(nvml_heat) == 12 && sizeof(nvml_fan) == 12,
               "sizes that the versions state");
#define MEMORY_VERSION 0x02000028U
#define HEAT_VERSION 0x0100000CU
#define FAN_VERSION 0x0100000CU

/* X(member, arguments, name, older name with the same arguments or NULL) */
#define FUNCTIONS(X)                                                                                         \
    X(init, (void), "nvmlInit_v2", "nvmlInit")                                                               \
    X(shutdown, (void), "nvmlShutdown", NULL)                                                                \
    X(handle, (const char *, nvml_device *), "nvmlDeviceGetHandleByPciBusId_v2",                             \
      "nvmlDeviceGetHandleByPciBusId")                                                                       \
    X(name, (nvml_device, char *, unsigned), "nvmlDeviceGetName", NULL)                                      \
    X(shares, (nvml_device, nvml_shares *), "nvmlDeviceGetUtilizationRates", NULL)                           \
    X(memory_2, (nvml_device, nvml_memory_2 *), "nvmlDeviceGetMemoryInfo_v2", NULL)                          \
    X(memory_1, (nvml_device, nvml_memory_1 *), "nvmlDeviceGetMemoryInfo", NULL)                             \
    X(power, (nvml_device, unsigned *), "nvmlDeviceGetPowerUsage", NULL)                                     \
    X(limit, (nvml_device, unsigned *), "nvmlDeviceGetEnforcedPowerLimit", NULL)                             \
    X(energy, (nvml_device, unsigned long long *), "nvmlDeviceGetTotalEnergyConsumption", NULL)              \
    X(heat_2, (nvml_device, nvml_heat *), "nvmlDeviceGetTemperatureV", NULL)                                 \
    X(heat_1, (nvml_device, int, unsigned *), "nvmlDeviceGetTemperature", NULL)                              \
    X(reasons, (nvml_device, unsigned long long *), "nvmlDeviceGetCurrentClocksEventReasons",                \
      "nvmlDeviceGetCurrentClocksThrottleReasons")                                                           \
    X(clock, (nvml_device, int, unsigned *), "nvmlDeviceGetClockInfo", NULL)                                 \
    X(ecc, (nvml_device, int, int, unsigned long long *), "nvmlDeviceGetTotalEccErrors", NULL)               \
    X(pcie, (nvml_device, int, unsigned *), "nvmlDeviceGetPcieThroughput", NULL)                             \
    X(replays, (nvml_device, unsigned *), "nvmlDeviceGetPcieReplayCounter", NULL)                            \
    X(fan, (nvml_device, nvml_fan *), "nvmlDeviceGetFanSpeedRPM", NULL)                                      \
    X(rows, (nvml_device, unsigned *, unsigned *, unsigned *, unsigned *), "nvmlDeviceGetRemappedRows",      \
      NULL)                                                                                                  \
    X(mig_mode, (nvml_device, unsigned *, unsigned *), "nvmlDeviceGetMigMode", NULL)                         \
    X(mig_most, (nvml_device, unsigned *), "nvmlDeviceGetMaxMigDeviceCount", NULL)                           \
    X(mig_device, (nvml_device, unsigned, nvml_device *), "nvmlDeviceGetMigDeviceHandleByIndex", NULL)       \
    X(uuid, (nvml_device, char *, unsigned), "nvmlDeviceGetUUID", NULL)                                      \
    X(events_create, (nvml_events *), "nvmlEventSetCreate", NULL)                                            \
    X(events_free, (nvml_events), "nvmlEventSetFree", NULL)                                                  \
    X(events_add, (nvml_device, unsigned long long, nvml_events), "nvmlDeviceRegisterEvents", NULL)          \
    X(events_next, (nvml_events, nvml_event *, unsigned), "nvmlEventSetWait_v2", "nvmlEventSetWait")

typedef struct nvml_functions {
#define MEMBER(member, arguments, name, older) int(*member) arguments;
    FUNCTIONS(MEMBER)
#undef MEMBER
} nvml_functions;

typedef struct nvml {
    nvml_functions call; /* NULL: the library has no such function */
    nvml_device device;
    bool divided;               /* the GPU is divided (MIG), and its memory and use cover all parts */
    nvml_device part;           /* the part that the run uses; NULL: unknown, or the GPU is not divided */
    nvml_events events;         /* NULL: events are not supported */
    bool lost, pending, failed; /* reported: the GPU is lost, rows wait for a reset, rows have no spare */
} nvml;

/* --- opening --- */

static void *function_named(void *library, const char *name, const char *older)
{
    void *found = dlsym(library, name);
    return found || !older ? found : dlsym(library, older);
}

/* The library stays loaded: the driver's OpenCL library may use it as well. */
static bool load(nvml_functions *call)
{
    const char *own = getenv("CLTRAIN_NVML");
    void *library = dlopen(own && own[0] ? own : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
#define FIND(member, arguments, name, older)                                                                 \
    *(void **)(void *)&call->member = function_named(library, name, older);
    FUNCTIONS(FIND)
#undef FIND
    return call->init && call->handle;
}

static const char *meaning(int code)
{
    return code == NVML_NO_DRIVER  ? "the driver is not loaded"
           : code == NVML_GPU_LOST ? "the GPU is lost: it has fallen off the bus or cannot be reached"
           : code == NVML_OTHER_VERSION
               ? "the library and the loaded driver are of different versions, as after an update: restart "
                 "the machine"
               : "see the codes of nvmlReturn_t";
}

static void say(char trouble[256], const char *doing, int code)
{
    (void)snprintf(trouble, 256, "NVML: %s failed with code %d: %s", doing, code, meaning(code));
}

/* Registers for events about errors of the device. */
static void watch_events(nvml *n)
{
    nvml_events events = NULL;
    if (!n->call.events_create || !n->call.events_add || !n->call.events_next ||
        n->call.events_create(&events) != NVML_OK)
        return;
    if (n->call.events_add(n->device, EVENT_XID, events) == NVML_OK)
        n->events = events;
    else if (n->call.events_free)
        (void)n->call.events_free(events);
}

/* True if CUDA_VISIBLE_DEVICES, which NVIDIA's OpenCL obeys as well, gives this part to the program. */
static bool is_given(const nvml *n, nvml_device part)
{
    const char *given = getenv("CUDA_VISIBLE_DEVICES");
    char uuid[96];
    return given && n->call.uuid && n->call.uuid(part, uuid, sizeof uuid) == NVML_OK && uuid[0] &&
           strncmp(given, uuid, strlen(uuid)) == 0;
}

/* Finds the part of a divided GPU that this process uses: the part that the environment names, else the only
 * visible part, as in a container. */
static void find_part(nvml *n)
{
    unsigned now = 0, later = 0, most = 0;
    int seen = 0;
    if (!n->call.mig_mode || n->call.mig_mode(n->device, &now, &later) != NVML_OK || !now)
        return;
    n->divided = true;
    if (!n->call.mig_most || !n->call.mig_device || n->call.mig_most(n->device, &most) != NVML_OK)
        return;
    for (unsigned i = 0; i < most && i < MOST_PARTS; i++) {
        nvml_device part = NULL;
        if (n->call.mig_device(n->device, i, &part) != NVML_OK)
            continue;
        if (is_given(n, part)) {
            n->part = part;
            return;
        }
        n->part = seen++ ? NULL : part;
    }
}

static void open_nvml(const clt_monitor_options *o, clt_monitor_facts *facts, char trouble[256], void **state)
{
    nvml_functions call;
    unsigned domain, bus, device, function;
    char address[32];
    nvml_device handle = NULL;
    nvml *n;
    if (sscanf(o->pci, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4 || !load(&call))
        return;
    int code = call.init();
    if (code != NVML_OK) {
        say(trouble, "starting", code);
        return;
    }
    (void)snprintf(address, sizeof address, "%08x:%02x:%02x.%x", domain, bus, device, function);
    code = call.handle(address, &handle);
    if (code != NVML_OK || clt_alloc(&n, 1, sizeof *n, "a source of figures") != CLT_OK) {
        if (code != NVML_OK && code != NVML_NOT_FOUND)
            say(trouble, "finding the device", code);
        if (call.shutdown)
            (void)call.shutdown();
        return;
    }
    n->call = call;
    n->device = handle;
    find_part(n);
    if (call.name && call.name(n->part ? n->part : handle, facts->name, sizeof facts->name) != NVML_OK)
        facts->name[0] = '\0';
    watch_events(n);
    *state = n;
}

static void close_nvml(void *state)
{
    nvml *n = state;
    if (n->events && n->call.events_free)
        (void)n->call.events_free(n->events);
    if (n->call.shutdown)
        (void)n->call.shutdown();
    free(n);
}

/* --- sampling --- */

/* True if a call returned a value; reports once that the GPU is lost. */
static bool had(nvml *n, clt_monitor_sample *out, int code)
{
    if (code == NVML_GPU_LOST && !n->lost) {
        n->lost = true;
        say(out->trouble, "a request", code);
    }
    return code == NVML_OK;
}

/* Calls a function if the library has it, for the GPU or for a part of it. */
#define QUERY_OF(handle, member, ...) (n->call.member && had(n, out, n->call.member(handle, __VA_ARGS__)))
#define QUERY(member, ...) QUERY_OF(n->device, member, __VA_ARGS__)

static void sample_memory(nvml *n, clt_monitor_sample *out)
{
    nvml_memory_2 new = {.version = MEMORY_VERSION};
    nvml_memory_1 old;
    nvml_device whose = n->divided ? n->part : n->device;
    if (!whose)
        return;
    if (QUERY_OF(whose, memory_2, &new)) {
        out->value[CLT_MONITOR_MEMORY_USED] = (double)new.used;
        out->value[CLT_MONITOR_MEMORY_SIZE] = (double)new.total;
    } else if (QUERY_OF(whose, memory_1, &old)) {
        out->value[CLT_MONITOR_MEMORY_USED] = (double)old.used;
        out->value[CLT_MONITOR_MEMORY_SIZE] = (double)old.total;
    }
}

static void sample_power_and_heat(nvml *n, clt_monitor_sample *out)
{
    unsigned number;
    unsigned long long mj, reasons;
    nvml_heat heat = {.version = HEAT_VERSION, .sensor = SENSOR_GPU};
    if (QUERY(power, &number))
        out->value[CLT_MONITOR_POWER] = number * 1e-3;
    if (QUERY(limit, &number))
        out->value[CLT_MONITOR_POWER_LIMIT] = number * 1e-3;
    if (QUERY(energy, &mj))
        out->energy = (double)mj * 1e-3;
    if (QUERY(heat_2, &heat))
        out->value[CLT_MONITOR_TEMPERATURE] = heat.celsius;
    else if (QUERY(heat_1, SENSOR_GPU, &number))
        out->value[CLT_MONITOR_TEMPERATURE] = number;
    if (QUERY(reasons, &reasons)) {
        out->value[CLT_MONITOR_THROTTLED] = (reasons & (FOR_POWER | FOR_HEAT | BY_HARDWARE)) != 0;
        out->value[CLT_MONITOR_THROTTLED_HEAT] = (reasons & FOR_HEAT) != 0;
    }
}

static void sample_bus_and_clocks(nvml *n, clt_monitor_sample *out)
{
    unsigned number;
    nvml_fan fan = {.version = FAN_VERSION};
    if (QUERY(fan, &fan))
        out->value[CLT_MONITOR_FAN] = fan.rpm;
    if (QUERY(clock, CLOCK_SM, &number))
        out->value[CLT_MONITOR_CLOCK] = number * 1e6;
    if (QUERY(clock, CLOCK_MEMORY, &number))
        out->value[CLT_MONITOR_MEMORY_CLOCK] = number * 1e6;
    if (QUERY(pcie, 0, &number)) /* each call takes 20 ms */
        out->value[CLT_MONITOR_PCIE_TX] = number * 1e3;
    if (QUERY(pcie, 1, &number))
        out->value[CLT_MONITOR_PCIE_RX] = number * 1e3;
    if (QUERY(replays, &number))
        out->value[CLT_MONITOR_PCIE_REPLAYS] = number;
}

/* Reports memory rows with errors: either spare rows will replace them at the next reset, or no spare row
 * could. */
static void sample_rows(nvml *n, clt_monitor_sample *out)
{
    unsigned corrected, uncorrected, pending = 0, failed = 0;
    if (!QUERY(rows, &corrected, &uncorrected, &pending, &failed))
        return;
    if (failed && !n->failed)
        (void)snprintf(out->trouble, sizeof out->trouble,
                       "NVML: memory of the GPU has errors, and its spare rows could not replace it: replace "
                       "the GPU (uncorrected errors: %u)",
                       uncorrected);
    else if (pending && !n->pending && !failed)
        (void)snprintf(out->trouble, sizeof out->trouble,
                       "NVML: memory of the GPU had errors, and spare rows replace it when the GPU is reset: "
                       "the results may suffer until then (uncorrected errors: %u)",
                       uncorrected);
    n->failed = n->failed || failed;
    n->pending = n->pending || pending;
}

static void sample_errors(nvml *n, clt_monitor_sample *out)
{
    unsigned long long count;
    nvml_event event;
    if (QUERY(ecc, ECC_CORRECTED, 0, &count))
        out->value[CLT_MONITOR_ECC_CORRECTED] = (double)count;
    if (QUERY(ecc, ECC_UNCORRECTED, 0, &count))
        out->value[CLT_MONITOR_ECC_UNCORRECTED] = (double)count;
    while (n->events && out->xids < CLT_MONITOR_XIDS) {
        memset(&event, 0, sizeof event);
        if (n->call.events_next(n->events, &event, 0) != NVML_OK)
            break;
        if (event.type == EVENT_XID)
            out->xid[out->xids++] = (int)event.data;
    }
}

static void sample_nvml(void *state, clt_monitor_sample *out)
{
    nvml *n = state;
    nvml_shares shares;
    sample_errors(n, out);
    sample_rows(n, out);
    if (!n->divided && QUERY(shares, &shares))
        out->value[CLT_MONITOR_UTILIZATION] = shares.gpu * 1e-2;
    sample_memory(n, out);
    sample_power_and_heat(n, out);
    sample_bus_and_clocks(n, out);
}

static int list_nvml(clt_monitor_device *devices, int most)
{
    int count = clt_monitor_list_driver("nvidia", devices, most);
    for (int i = 0; i < count; i++)
        devices[i].source = "nvml";
    return count;
}

const clt_monitor_source clt_monitor_nvml = {"nvml", open_nvml, sample_nvml, close_nvml, list_nvml};
