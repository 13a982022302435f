/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the limits of this process's control groups at every level up to the mount point, because the
 * limits of all levels apply. A container's limits are often far below the machine's size. Knows nothing
 * of its callers. */
#include "engine/host/cgroup.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/scope.h"

/* One hierarchy: the folder of this process's group, and the length of the mount point with which its path
 * begins. */
typedef struct hierarchy {
    char folder[PATH_MAX];
    size_t mount_length;
    bool v2;
} hierarchy;

static bool in_list(const char *list, const char *name)
{
    size_t length = strlen(name);
    while (*list) {
        size_t word = strcspn(list, ",");
        if (word == length && memcmp(list, name, length) == 0)
            return true;
        list += word;
        list += *list == ',';
    }
    return false;
}

/* mountinfo writes space, tab, newline and backslash as \ooo. */
static void decode_octal(char *text)
{
    char *to = text;
    for (const char *from = text; *from;) {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' &&
            from[3] >= '0' && from[3] <= '7') {
            *to++ = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 4;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

static FILE *open_under(const char *root, const char *path)
{
    char full[PATH_MAX];
    int n = snprintf(full, sizeof full, "%s%s", root, path);
    return n > 0 && (size_t)n < sizeof full ? fopen(full, "re") : NULL;
}

/* The path of this process's control group in the hierarchy of `controller` (NULL: the hierarchy of version
 * 2). False: it was not found. */
static bool find_group(const char *root, const char *controller, char path[PATH_MAX])
{
    FILE *file = open_under(root, "/proc/self/cgroup");
    if (!file)
        return false;
    CLT_FREED char *line = NULL;
    size_t capacity = 0;
    bool got = false;
    while (!got && getline(&line, &capacity, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *list = strchr(line, ':');
        char *group = list ? strchr(list + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        list++;
        bool match = controller ? in_list(list, controller) : *list == '\0';
        if (match && strlen(group) < PATH_MAX) {
            memcpy(path, group, strlen(group) + 1);
            got = true;
        }
    }
    (void)fclose(file);
    return got;
}

/* Fields of a mountinfo line: id parent major:minor root mount options [tags] - type source
 * super-options. */
static bool parse_mount(char *line, const char *controller, char **mount_root, char **mount_point)
{
    char *tail = strstr(line, " - ");
    if (!tail)
        return false;
    *tail = '\0';
    char *save = NULL;
    char *type = strtok_r(tail + 3, " \n", &save);
    (void)strtok_r(NULL, " \n", &save);
    char *options = strtok_r(NULL, " \n", &save);
    if (!type)
        return false;
    bool match = controller ? strcmp(type, "cgroup") == 0 && options && in_list(options, controller)
                            : strcmp(type, "cgroup2") == 0;
    if (!match)
        return false;
    char *field = strtok_r(line, " ", &save);
    for (int i = 0; i < 3 && field; i++)
        field = strtok_r(NULL, " ", &save);
    *mount_root = field;
    *mount_point = field ? strtok_r(NULL, " ", &save) : NULL;
    if (!*mount_point)
        return false;
    decode_octal(*mount_root);
    decode_octal(*mount_point);
    return true;
}

/* The part of a group's path below the mount. The path begins at the root of the hierarchy, but a mount may
 * show only a part of it, as in a container without its own name space for control groups. */
static const char *below_mount(const char *group, const char *mount_root)
{
    size_t length = strlen(mount_root);
    if (strcmp(mount_root, "/") == 0)
        return strcmp(group, "/") == 0 ? "" : group;
    if (strncmp(group, mount_root, length) == 0 && (group[length] == '/' || group[length] == '\0'))
        return group + length;
    return "";
}

static bool find_hierarchy(const char *root, const char *controller, hierarchy *out)
{
    char group[PATH_MAX];
    FILE *file = NULL;
    if (!find_group(root, controller, group) || !(file = open_under(root, "/proc/self/mountinfo")))
        return false;
    char *line = NULL;
    size_t capacity = 0;
    bool got = false;
    while (!got && getline(&line, &capacity, file) > 0) {
        char *mount_root, *mount_point;
        if (!parse_mount(line, controller, &mount_root, &mount_point))
            continue;
        const char *rest = strstr(group, "/..") ? "" : below_mount(group, mount_root);
        int n = snprintf(out->folder, sizeof out->folder, "%s%s%s", root, mount_point, rest);
        got = n > 0 && (size_t)n < sizeof out->folder;
        out->mount_length = strlen(root) + strlen(mount_point);
        out->v2 = controller == NULL;
    }
    free(line);
    (void)fclose(file);
    return got;
}

static bool to_parent(hierarchy *h)
{
    size_t length = strlen(h->folder);
    if (length <= h->mount_length)
        return false;
    char *slash = strrchr(h->folder, '/');
    if (!slash || (size_t)(slash - h->folder) < h->mount_length)
        return false;
    *slash = '\0';
    return true;
}

static FILE *open_in(const hierarchy *h, const char *name)
{
    return open_under(h->folder, name);
}

/* The first two words of a file; false if it cannot be read. */
static bool read_words(const hierarchy *h, const char *name, char first[64], char second[64])
{
    FILE *file = open_in(h, name);
    if (!file)
        return false;
    first[0] = second[0] = '\0';
    int n = fscanf(file, "%63s %63s", first, second);
    (void)fclose(file);
    return n >= 1;
}

static bool parse_u64(const char *text, uint64_t *out)
{
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return false;
    unsigned long long value = strtoull(text, &end, 10);
    *out = value;
    return *end == '\0';
}

static double cpus_of_level(const hierarchy *h)
{
    char quota[64], period[64], unused[64];
    uint64_t quota_us, period_us;
    if (h->v2) {
        if (!read_words(h, "/cpu.max", quota, period))
            return 0;
    } else if (!read_words(h, "/cpu.cfs_quota_us", quota, unused) ||
               !read_words(h, "/cpu.cfs_period_us", period, unused)) {
        return 0;
    }
    /* "max" and -1 mean no limit. */
    if (!parse_u64(quota, &quota_us) || !parse_u64(period, &period_us) || quota_us == 0 || period_us == 0)
        return 0;
    return (double)quota_us / (double)period_us;
}

/* Finds the level with the smallest quota and returns that quota in processors; 0: no level has a quota. */
static double tightest_level(const char *root, hierarchy *out)
{
    static const char *const controllers[] = {"cpu", NULL};
    double least = 0;
    for (int i = 0; i < 2; i++) {
        hierarchy h;
        if (!find_hierarchy(root, controllers[i], &h))
            continue;
        do {
            double cpus = cpus_of_level(&h);
            if (cpus > 0 && (least == 0 || cpus < least)) {
                least = cpus;
                *out = h;
            }
        } while (to_parent(&h));
    }
    return least;
}

double clt_cgroup_cpus(const char *root)
{
    hierarchy level;
    return tightest_level(root, &level);
}

/* The number of a key in cpu.stat; NAN: the file lacks the key. */
static double count_of(const hierarchy *h, const char *key)
{
    char name[64], value[64];
    uint64_t number;
    double found = NAN;
    FILE *file = open_in(h, "/cpu.stat");
    while (file && isnan(found) && fscanf(file, "%63s %63s", name, value) == 2)
        if (strcmp(name, key) == 0 && parse_u64(value, &number))
            found = (double)number;
    if (file)
        (void)fclose(file);
    return found;
}

bool clt_cgroup_periods(const char *root, double *periods, double *held)
{
    hierarchy level;
    if (!(tightest_level(root, &level) > 0))
        return false;
    *periods = count_of(&level, "nr_periods");
    *held = count_of(&level, "nr_throttled");
    return !isnan(*periods) && !isnan(*held);
}

/* Bytes of file cache, which the group's use includes although the kernel frees this cache before it refuses
 * memory. */
static uint64_t cache_of_level(const hierarchy *h)
{
    FILE *file = open_in(h, "/memory.stat");
    if (!file)
        return 0;
    char name[64], value[64];
    uint64_t total = 0, bytes;
    while (fscanf(file, "%63s %63s", name, value) == 2) {
        const char *key = name;
        if (!h->v2) {
            if (strncmp(name, "total_", 6) != 0)
                continue;
            key += 6;
        }
        bool is_cache = strcmp(key, "inactive_file") == 0 || strcmp(key, "active_file") == 0;
        if (is_cache && parse_u64(value, &bytes))
            total += bytes;
    }
    (void)fclose(file);
    return total;
}

static bool left_of_level(const hierarchy *h, const char *limit_name, const char *use_name, uint64_t *left)
{
    char limit_text[64], use_text[64], unused[64];
    uint64_t limit, use = 0;
    if (!read_words(h, limit_name, limit_text, unused) || !parse_u64(limit_text, &limit))
        return false;
    if (limit >= (uint64_t)INT64_MAX / 2) /* version 1 writes "no limit" as a huge number */
        return false;
    if (read_words(h, use_name, use_text, unused))
        (void)parse_u64(use_text, &use);
    uint64_t cache = cache_of_level(h);
    use -= cache < use ? cache : use;
    *left = use < limit ? limit - use : 0;
    return true;
}

bool clt_cgroup_memory(const char *root, uint64_t *left)
{
    static const struct {
        const char *controller, *limit, *use;
    } kinds[] = {
        {"memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes"},
        {NULL, "/memory.max", "/memory.current"},
        {NULL, "/memory.high", "/memory.current"}, /* above memory.high the kernel throttles the process */
    };
    bool any = false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        hierarchy h;
        if (!find_hierarchy(root, kinds[i].controller, &h))
            continue;
        do {
            uint64_t bytes;
            if (left_of_level(&h, kinds[i].limit, kinds[i].use, &bytes) && (!any || bytes < *left)) {
                *left = bytes;
                any = true;
            }
        } while (to_parent(&h));
    }
    return any;
}

clt_cgroup_use clt_cgroup_use_of(const char *root)
{
    clt_cgroup_use use = {NAN, NAN};
    hierarchy h;
    char value[64], unused[64];
    uint64_t number;
    if (!find_hierarchy(root, NULL, &h))
        return use;
    if (read_words(&h, "/memory.current", value, unused) && parse_u64(value, &number)) {
        uint64_t cache = cache_of_level(&h);
        use.memory_bytes = (double)(number - (cache < number ? cache : number));
    }
    use.cpu_seconds = count_of(&h, "usage_usec") * 1e-6;
    return use;
}
