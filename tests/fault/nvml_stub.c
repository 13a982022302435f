/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulates NVIDIA's library NVML for the tests of monitoring: one GPU at 00000000:65:00.0 whose figures
 * are known. Its energy counter grows by 100 J with each query, so that nothing depends on time. Built once
 * for each KIND:
 *
 *   KIND_all      every function that cltrain asks for; an error of the device (Xid 79) is reported once
 *   KIND_xids     the same is reported with each question
 *   KIND_old      only the names of older drivers
 *   KIND_none     every question is answered by "not supported" (3)
 *   KIND_lost     the GPU is lost (15)
 *   KIND_hang     the question for the power never returns
 *   KIND_struct   newer structures are refused (25); older functions answer
 *   KIND_mig      the GPU is divided into two parts, MIG-1 and MIG-2, each with a memory of its own, and
 *                 nobody counts how busy they are
 *   KIND_rows     rows of its memory wait for a reset; from the third question on they cannot be replaced
 *   KIND_mismatch the library and the driver are of different versions (18) */
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum {
    OK = 0,
    ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    NO_EVENT = 10,
    LOST = 15,
    MISMATCH = 18,
    STRUCT = 25
};

#if KIND_none
#define ANSWER NOT_SUPPORTED
#elif KIND_lost
#define ANSWER LOST
#else
#define ANSWER OK
#endif
#if KIND_struct
#define ANSWER_2 STRUCT
#else
#define ANSWER_2 ANSWER
#endif

static int gpu; /* a handle is its address */
#if KIND_mig
static int parts[2];
#define IS_PART(device) ((device) == &parts[0] || (device) == &parts[1])
#else
#define IS_PART(device) ((void)(device), 0)
#endif

/* Writes a value if the query is for the GPU. */
#define TELL(out, value)                                                                                     \
    do {                                                                                                     \
        if (device != &gpu)                                                                                  \
            return ARGUMENT;                                                                                 \
        if (ANSWER == OK)                                                                                    \
            *(out) = (value);                                                                                \
        return ANSWER;                                                                                       \
    } while (0)

static int begin(void)
{
#if KIND_mismatch
    return MISMATCH;
#else
    return OK;
#endif
}

static int find(const char *address, void **device)
{
    if (strcmp(address, "00000000:65:00.0") != 0)
        return NOT_FOUND;
    *device = &gpu;
    return OK;
}

typedef struct shares {
    unsigned gpu, memory;
} shares;
API int nvmlDeviceGetUtilizationRates(void *device, shares *out);
API int nvmlDeviceGetUtilizationRates(void *device, shares *out)
{
    const shares value = {37, 21};
#if KIND_mig
    (void)device, (void)value, (void)out;
    return NOT_SUPPORTED;
#else
    TELL(out, value);
#endif
}

typedef struct memory_1 {
    unsigned long long total, free, used;
} memory_1;
API int nvmlDeviceGetMemoryInfo(void *device, memory_1 *out);
API int nvmlDeviceGetMemoryInfo(void *device, memory_1 *out)
{
    const memory_1 value = {85899345920ULL, 84000000000ULL, 1899345920ULL};
    TELL(out, value);
}

API int nvmlDeviceGetPowerUsage(void *device, unsigned *out);
API int nvmlDeviceGetPowerUsage(void *device, unsigned *out)
{
#if KIND_hang
    for (;;)
        pause();
#endif
    TELL(out, 312500);
}

API int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *out);
API int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *out)
{
    TELL(out, 700000);
}

API int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *out);
API int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *out)
{
    if (sensor != 0)
        return ARGUMENT;
    TELL(out, 63);
}

API int nvmlDeviceGetClockInfo(void *device, int type, unsigned *out);
API int nvmlDeviceGetClockInfo(void *device, int type, unsigned *out)
{
    TELL(out, type == 1 ? 1755 : type == 2 ? 2619 : 1);
}

API int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, unsigned long long *out);
API int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, unsigned long long *out)
{
    if (counter != 0)
        return ARGUMENT;
    TELL(out, kind == 0 ? 3 : 0);
}

#if KIND_old
API int nvmlInit(void);
API int nvmlInit(void)
{
    return begin();
}

API int nvmlDeviceGetHandleByPciBusId(const char *address, void **device);
API int nvmlDeviceGetHandleByPciBusId(const char *address, void **device)
{
    return find(address, device);
}

API int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out);
API int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out)
{
    TELL(out, 0x4ULL);
}
#else
API int nvmlInit_v2(void);
API int nvmlInit_v2(void)
{
    return begin();
}

API int nvmlShutdown(void);
API int nvmlShutdown(void)
{
    return OK;
}

API int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **device);
API int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **device)
{
    return find(address, device);
}

API int nvmlDeviceGetName(void *device, char *name, unsigned size);
API int nvmlDeviceGetName(void *device, char *name, unsigned size)
{
    static const char own[] = "Test GPU 80GB", part[] = "Test GPU 80GB MIG 1g.10gb";
    if ((device != &gpu && !IS_PART(device)) || size < sizeof part)
        return ARGUMENT;
    memcpy(name, device == &gpu ? own : part, device == &gpu ? sizeof own : sizeof part);
    return OK;
}

API int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *out);
API int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *out)
{
    TELL(out, 0x1ULL | 0x20ULL);
}

typedef struct memory_2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
} memory_2;
API int nvmlDeviceGetMemoryInfo_v2(void *device, memory_2 *out);
API int nvmlDeviceGetMemoryInfo_v2(void *device, memory_2 *out)
{
    const memory_2 value = {0x02000028U, 85899345920ULL, 600000000ULL, 84000000000ULL, 1299345920ULL};
    if (out->version != 0x02000028U || ANSWER_2 == STRUCT)
        return STRUCT;
#if KIND_mig
    const memory_2 own = {0x02000028U, 10000000000ULL, 50000000ULL, 6000000000ULL, 4000000000ULL};
    if (IS_PART(device)) {
        *out = own;
        out->used += device == &parts[1]; /* so that they differ */
        return OK;
    }
#endif
    TELL(out, value);
}

typedef struct fan {
    unsigned version, fan, rpm;
} fan;
API int nvmlDeviceGetFanSpeedRPM(void *device, fan *out);
API int nvmlDeviceGetFanSpeedRPM(void *device, fan *out)
{
    const fan value = {0x0100000CU, 0, 2150};
    if (out->version != 0x0100000CU || out->fan != 0)
        return STRUCT;
    TELL(out, value);
}

API int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                                  unsigned *failed);
API int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                                  unsigned *failed)
{
#if KIND_rows
    static int asked;
    *uncorrected = 2;
    *pending = 1;
    *failed = ++asked > 2;
#else
    *uncorrected = *pending = *failed = 0;
#endif
    TELL(corrected, 0);
}

/* --- a divided GPU --- */

API int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *later);
API int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *later)
{
#if KIND_mig
    *now = *later = 1;
    return device == &gpu ? OK : ARGUMENT;
#else
    (void)device, (void)now, (void)later;
    return NOT_SUPPORTED;
#endif
}

#if KIND_mig
API int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count);
API int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count)
{
    TELL(count, 7);
}

API int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **part);
API int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **part)
{
    if (index != 0 && index != 3) /* not every index has a part */
        return NOT_FOUND;
    TELL(part, &parts[index / 3]);
}

API int nvmlDeviceGetUUID(void *device, char *uuid, unsigned size);
API int nvmlDeviceGetUUID(void *device, char *uuid, unsigned size)
{
    if (!IS_PART(device) || size < 6)
        return ARGUMENT;
    memcpy(uuid, device == &parts[0] ? "MIG-1" : "MIG-2", 6);
    return OK;
}
#endif

typedef struct heat {
    unsigned version, sensor;
    int celsius;
} heat;
API int nvmlDeviceGetTemperatureV(void *device, heat *out);
API int nvmlDeviceGetTemperatureV(void *device, heat *out)
{
    const heat value = {0x0100000CU, 0, 64};
    if (out->version != 0x0100000CU || ANSWER_2 == STRUCT)
        return STRUCT;
    TELL(out, value);
}

API int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *out);
API int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *out)
{
    static unsigned long long mj = 5000000ULL;
    mj += 100000ULL;
    TELL(out, mj);
}

API int nvmlDeviceGetPcieThroughput(void *device, int counter, unsigned *out);
API int nvmlDeviceGetPcieThroughput(void *device, int counter, unsigned *out)
{
    TELL(out, counter == 0 ? 1500 : 2500);
}

API int nvmlDeviceGetPcieReplayCounter(void *device, unsigned *out);
API int nvmlDeviceGetPcieReplayCounter(void *device, unsigned *out)
{
    TELL(out, 2);
}

/* --- events --- */

static int events, told;

API int nvmlEventSetCreate(void **out);
API int nvmlEventSetCreate(void **out)
{
    *out = &events;
    return ANSWER;
}

API int nvmlEventSetFree(void *set);
API int nvmlEventSetFree(void *set)
{
    return set == &events ? OK : ARGUMENT;
}

API int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set);
API int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set)
{
    return device == &gpu && types == 8 && set == &events ? ANSWER : ARGUMENT;
}

typedef struct event {
    void *device;
    unsigned long long type, data;
    unsigned instance, compute_instance;
} event;
API int nvmlEventSetWait_v2(void *set, event *out, unsigned ms);
API int nvmlEventSetWait_v2(void *set, event *out, unsigned ms)
{
    const event xid = {&gpu, 8, 79, 0, 0};
    if (set != &events || ms != 0)
        return ARGUMENT;
#if KIND_xids
    if (!(told = !told)) /* one event for each query */
        return NO_EVENT;
#else
    if (told)
        return NO_EVENT;
    told = 1;
#endif
    *out = xid;
    return OK;
}
#endif
