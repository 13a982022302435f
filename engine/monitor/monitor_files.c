/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads small files of the kernel: numbers, lines, the folders of PCI devices and of their sensors. A file
 * that is missing or has other content is not an error, since kernels and chips differ. */
#include <dirent.h>
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/text.h"
#include "engine/host/cores.h"
#include "engine/monitor/monitor_source.h"

bool clt_monitor_line(const char *folder, const char *name, char *line, size_t size)
{
    char path[CLT_MONITOR_PATH + 64];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
    bool got = file && fgets(line, (int)size, file);
    if (file)
        (void)fclose(file);
    if (got)
        line[strcspn(line, "\n")] = '\0';
    return got;
}

double clt_monitor_number(const char *folder, const char *name, double unit)
{
    char line[64], *end;
    if (!clt_monitor_line(folder, name, line, sizeof line))
        return NAN;
    double value = clt_strtod(line, &end);
    return end == line || !isfinite(value) ? NAN : value * unit;
}

bool clt_monitor_pci_folder(const char *pci, const char *driver, char folder[CLT_MONITOR_PATH])
{
    char link[CLT_MONITOR_PATH + 16], target[CLT_MONITOR_PATH];
    int n = snprintf(folder, CLT_MONITOR_PATH, "%s/bus/pci/devices/%s", clt_sysfs(), pci);
    if (!pci[0] || n <= 0 || n >= CLT_MONITOR_PATH)
        return false;
    (void)snprintf(link, sizeof link, "%s/driver", folder);
    ssize_t length = readlink(link, target, sizeof target - 1);
    if (length <= 0)
        return false;
    target[length] = '\0';
    return strcmp(basename(target), driver) == 0;
}

bool clt_monitor_address(const char *text, char pci[16])
{
    unsigned domain, bus, device, function;
    int used = 0;
    if (text[strspn(text, "0123456789abcdefABCDEF:.")] ||
        sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &used) != 4 || text[used])
        return false;
    int n = snprintf(pci, 16, "%04x:%02x:%02x.%x", domain, bus, device, function);
    return n > 0 && n < 16;
}

bool clt_monitor_hwmon(const char *folder, char out[CLT_MONITOR_PATH])
{
    char path[CLT_MONITOR_PATH + 16];
    int least = -1;
    (void)snprintf(path, sizeof path, "%s/hwmon", folder);
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        int number;
        if (sscanf(entry->d_name, "hwmon%d", &number) == 1 && (least < 0 || number < least))
            least = number;
    }
    (void)closedir(dir);
    int n = snprintf(out, CLT_MONITOR_PATH, "%s/hwmon%d", path, least);
    return least >= 0 && n < CLT_MONITOR_PATH;
}

#define MOST_SENSORS 8

double clt_monitor_temperature(const char *hwmon, const char *label, const char *or_label, int otherwise)
{
    char name[32], line[32];
    for (int i = 1; i <= MOST_SENSORS; i++) {
        (void)snprintf(name, sizeof name, "temp%d_label", i);
        bool labelled = clt_monitor_line(hwmon, name, line, sizeof line);
        if (labelled ? strcmp(line, label) != 0 && !(or_label && strcmp(line, or_label) == 0)
                     : i != otherwise)
            continue;
        (void)snprintf(name, sizeof name, "temp%d_input", i);
        double value = clt_monitor_number(hwmon, name, 1e-3);
        if (!isnan(value))
            return value;
    }
    return NAN;
}

int clt_monitor_list_driver(const char *driver, clt_monitor_device *devices, int most)
{
    char path[CLT_MONITOR_PATH], folder[CLT_MONITOR_PATH];
    int count = 0;
    (void)snprintf(path, sizeof path, "%s/bus/pci/devices", clt_sysfs());
    DIR *dir = opendir(path);
    if (!dir)
        return 0;
    for (const struct dirent *entry; count < most && (entry = readdir(dir));) {
        clt_monitor_device *d = &devices[count];
        if (strlen(entry->d_name) < sizeof d->pci && clt_monitor_pci_folder(entry->d_name, driver, folder)) {
            d->source = driver;
            memcpy(d->pci, entry->d_name, strlen(entry->d_name) + 1);
            count++;
        }
    }
    (void)closedir(dir);
    return count;
}
