/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of Intel's GPUs, from the sensors of the drivers i915 and xe. Neither driver has a file that says
 * how busy the device is. Only this process's own use of each engine of the device is known, from the
 * descriptors in /proc/self/fdinfo. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/monitor/monitor_source.h"

#define MOST_ENGINES 16
#define MOST_CLIENTS 64

/* The use of one engine by a client: a time in ns, or a number of cycles out of `total` cycles (xe). */
typedef struct engine {
    char name[64];
    double used, total;
    double capacity; /* number of engines with this name */
} engine;

/* A file of the device that this process has opened; several descriptors may share it. */
typedef struct client {
    long long id;
    engine engine[MOST_ENGINES];
    int engines;
    bool seen; /* in the present scan */
} client;

typedef struct intel {
    char folder[CLT_MONITOR_PATH], hwmon[CLT_MONITOR_PATH], fdinfo[CLT_MONITOR_PATH], pci[16];
    bool sensors;
    client client[MOST_CLIENTS];
    int clients;
    double at;
} intel;

/* What all clients have used since the previous scan. */
typedef struct look {
    client sum;
    double memory; /* NAN: the driver does not say */
} look;

static void open_intel(const char *driver, const clt_monitor_options *o, void **state)
{
    char folder[CLT_MONITOR_PATH];
    intel *d;
    if (!clt_monitor_pci_folder(o->pci, driver, folder) ||
        clt_alloc(&d, 1, sizeof *d, "a source of figures") != CLT_OK)
        return;
    memcpy(d->folder, folder, sizeof folder);
    d->sensors = clt_monitor_hwmon(folder, d->hwmon);
    (void)snprintf(d->pci, sizeof d->pci, "%s", o->pci);
    (void)snprintf(d->fdinfo, sizeof d->fdinfo, "%s/proc/self/fdinfo", o->root);
    d->at = NAN;
    *state = d;
}

/* --- what this process has used --- */

static engine *engine_named(client *c, const char *name)
{
    for (int i = 0; i < c->engines; i++)
        if (strcmp(c->engine[i].name, name) == 0)
            return &c->engine[i];
    if (c->engines == MOST_ENGINES)
        return NULL;
    engine *new = &c->engine[c->engines++];
    *new = (engine){.capacity = 1};
    (void)snprintf(new->name, sizeof new->name, "%s", name);
    return new;
}

/* The bytes of a line such as "drm-memory-vram0: 1024 KiB". */
static double bytes_of(double value, const char *unit)
{
    return strncmp(unit, "KiB", 3) == 0   ? value * 1024
           : strncmp(unit, "MiB", 3) == 0 ? value * 1048576
                                          : value;
}

/* "drm-memory-local0" (i915) and "drm-resident-vram0" (xe) are the device's memory, other regions the
 * host's. */
static bool is_device_memory(const char *key)
{
    const char *region = strncmp(key, "drm-memory-", 11) == 0     ? key + 11
                         : strncmp(key, "drm-resident-", 13) == 0 ? key + 13
                                                                  : "";
    return strncmp(region, "local", 5) == 0 || strncmp(region, "vram", 4) == 0;
}

static void take_line(client *c, double *memory, const char *key, double value, const char *unit)
{
    engine *e;
    if (strncmp(key, "drm-engine-capacity-", 20) == 0) {
        if ((e = engine_named(c, key + 20)) && value >= 1)
            e->capacity = value;
    } else if (strncmp(key, "drm-engine-", 11) == 0 || strncmp(key, "drm-cycles-", 11) == 0) {
        if ((e = engine_named(c, key + 11)))
            e->used = value;
    } else if (strncmp(key, "drm-total-cycles-", 17) == 0) {
        if ((e = engine_named(c, key + 17))) /* a counter of the device, the same for every client */
            e->total = value;
    } else if (is_device_memory(key)) {
        *memory = (isnan(*memory) ? 0 : *memory) + bytes_of(value, unit);
    }
}

/* The client with this id from earlier scans, or a new one. NULL: there are too many. */
static client *client_of(intel *d, long long id)
{
    for (int i = 0; i < d->clients; i++)
        if (d->client[i].id == id)
            return &d->client[i];
    if (d->clients == MOST_CLIENTS)
        return NULL;
    client *new = &d->client[d->clients++];
    *new = (client){.id = id};
    return new;
}

/* Adds what a client has used since the previous scan. If a counter has decreased, the larger value is
 * kept. */
static void add_client(client *old, const client *now, client *sum)
{
    for (int i = 0; i < now->engines; i++) {
        const engine *e = &now->engine[i];
        engine *before = engine_named(old, e->name), *to;
        if (!before)
            continue;
        const bool timed = before->total > 0 || !(e->total > 0); /* the interval's length is known */
        if (timed && (to = engine_named(sum, e->name))) {
            to->used += fmax(e->used - before->used, 0);
            to->total = fmax(to->total, e->total - before->total);
            to->capacity = e->capacity;
        }
        before->used = fmax(before->used, e->used);
        before->total = fmax(before->total, e->total);
    }
}

/* Reads one open file. A client that several files share is counted once. The older key of memory is skipped
 * if the newer one is present. */
static void take_file(intel *d, look *l, const char *path)
{
    char line[256], text[4096], key[64], unit[8], address[32] = "";
    long long id = -1;
    client now = {0}, *old;
    size_t used = 0;
    bool resident;
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    text[0] = '\0';
    while (fgets(line, sizeof line, file)) {
        (void)sscanf(line, "drm-pdev: %31s", address);
        (void)sscanf(line, "drm-client-id: %lld", &id);
        size_t length = strlen(line);
        if (used + length < sizeof text) {
            memcpy(text + used, line, length + 1);
            used += length;
        }
    }
    (void)fclose(file);
    if (strcmp(address, d->pci) != 0 || !(old = client_of(d, id)) || old->seen)
        return;
    old->seen = true;
    resident = strstr(text, "drm-resident-") != NULL;
    for (char *at = text, *end; *at; at = end) {
        double value;
        end = at + strcspn(at, "\n");
        end += *end == '\n';
        unit[0] = '\0';
        if (sscanf(at, "%63[^: ]: %lf %7s", key, &value, unit) >= 2 &&
            !(resident && strncmp(key, "drm-memory-", 11) == 0))
            take_line(&now, &l->memory, key, value, unit);
    }
    add_client(old, &now, &l->sum);
}

static void look_at_self(intel *d, look *l)
{
    char path[CLT_MONITOR_PATH + 272];
    int kept = 0;
    for (int i = 0; i < d->clients; i++)
        d->client[i].seen = false;
    *l = (look){.memory = NAN};
    DIR *dir = opendir(d->fdinfo);
    if (!dir)
        return;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        (void)snprintf(path, sizeof path, "%s/%s", d->fdinfo, entry->d_name);
        if (entry->d_name[0] != '.')
            take_file(d, l, path);
    }
    (void)closedir(dir);
    for (int i = 0; i < d->clients; i++) /* forgets clients whose files have been closed */
        if (d->client[i].seen)
            d->client[kept++] = d->client[i];
    d->clients = kept;
}

/* The share of time that the busiest engine was busy since the previous scan. */
static double share_since(intel *d, const look *l, double now)
{
    double most = NAN, ns = (now - d->at) * 1e9; /* NAN in the first scan */
    for (int i = 0; i < l->sum.engines && !isnan(ns); i++) {
        const engine *e = &l->sum.engine[i];
        double time = e->total > 0 ? e->total : ns;
        double share = time > 0 ? e->used / (time * e->capacity) : NAN;
        most = isnan(most) ? share : fmax(most, share);
    }
    d->at = now;
    return fmin(most, isnan(most) ? most : 1);
}

static void sample_intel(void *state, clt_monitor_sample *out)
{
    intel *d = state;
    look now;
    double *v = out->value;
    look_at_self(d, &now);
    v[CLT_MONITOR_UTILIZATION] = share_since(d, &now, out->at);
    v[CLT_MONITOR_MEMORY_USED] = now.memory;
    if (!d->sensors)
        return;
    out->energy = clt_monitor_number(d->hwmon, "energy1_input", 1e-6); /* of the card */
    if (isnan(out->energy))
        out->energy = clt_monitor_number(d->hwmon, "energy2_input", 1e-6); /* of the package */
    v[CLT_MONITOR_POWER_LIMIT] = clt_monitor_number(d->hwmon, "power1_max", 1e-6);
    if (isnan(v[CLT_MONITOR_POWER_LIMIT]))
        v[CLT_MONITOR_POWER_LIMIT] = clt_monitor_number(d->hwmon, "power1_rated_max", 1e-6);
    v[CLT_MONITOR_FAN] = clt_monitor_number(d->hwmon, "fan1_input", 1);
    v[CLT_MONITOR_TEMPERATURE] = clt_monitor_temperature(d->hwmon, "pkg", "package", 2);
    v[CLT_MONITOR_MEMORY_TEMPERATURE] = clt_monitor_temperature(d->hwmon, "vram", NULL, 3);
}

static void open_i915(const clt_monitor_options *o, clt_monitor_facts *facts, char trouble[256], void **state)
{
    (void)facts;
    (void)trouble;
    open_intel("i915", o, state);
}

static void open_xe(const clt_monitor_options *o, clt_monitor_facts *facts, char trouble[256], void **state)
{
    (void)facts;
    (void)trouble;
    open_intel("xe", o, state);
}

static int list_i915(clt_monitor_device *devices, int most)
{
    return clt_monitor_list_driver("i915", devices, most);
}

static int list_xe(clt_monitor_device *devices, int most)
{
    return clt_monitor_list_driver("xe", devices, most);
}

const clt_monitor_source clt_monitor_i915 = {"i915", open_i915, sample_intel, free, list_i915};
const clt_monitor_source clt_monitor_xe = {"xe", open_xe, sample_intel, free, list_xe};
