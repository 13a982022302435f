/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the rules of CLT_SHIM (their grammar is in driver_shim.c) and decides which of them apply to a
 * call. */
#include "tests/fault/driver_shim.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const call_names[CALL_COUNT] = {"build", "kernel", "group", "local", "launch", "read"};
/* An action's name, its calls, and its number if none is given. */
static const struct {
    const char *name;
    unsigned calls;
    double value;
} actions[ACTION_COUNT] = {[ABORT] = {"abort", ~0u, 0},
                           [SEGFAULT] = {"segfault", ~0u, 0},
                           [HANG] = {"hang", ~0u, 0},
                           [ERROR] = {"error", ~0u, 0},
                           [SILENT] = {"silent", 1u << BUILD, CL_BUILD_PROGRAM_FAILURE},
                           [LIMIT] = {"limit", 1u << GROUP, 32},
                           [UNDERSTATE] = {"understate", 1u << GROUP, 32},
                           [TIMES] = {"times", 1u << LOCAL, 2},
                           [DEAD] = {"dead", 1u << LAUNCH, CL_INVALID_COMMAND_QUEUE},
                           [GARBAGE] = {"garbage", 1u << LAUNCH, 1},
                           [GROUP_WRONG] = {"group", 1u << LAUNCH, 1000},
                           [FAR_WRONG] = {"far", 1u << LAUNCH, 1 << 20},
                           [EVENT] = {"event", 1u << LAUNCH, CL_OUT_OF_RESOURCES},
                           [IDLE] = {"idle", 1u << LAUNCH, 1000},
                           [GROUPS] = {"groups", 1u << LAUNCH, 64},
                           [FLIP] = {"flip", 1u << READ, 0},
                           [NOT_A_NUMBER] = {"nan", 1u << READ, 0}};

typedef struct rule {
    call call;
    char *match;
    action action;
    double value;
    long nth, from, every; /* 0: every call */
    long matched;
} rule;

enum { MAX_RULES = 16 };

static struct {
    bool ready;
    int log;
    rule rules[MAX_RULES];
    int n_rules;
    const char *platform, *devices, *builtin;
    size_t largest, memory;
} shim = {.log = -1, .largest = SIZE_MAX, .memory = SIZE_MAX};

void shim_stop(const char *what, const char *text)
{
    fprintf(stderr, "driver_shim: CLT_SHIM: %s '%s'\n", what, text);
    _exit(99);
}

/* The environment variable */

static void parse_action(rule *r, char *text)
{
    char *value = strchr(text, '=');
    if (value)
        *value++ = '\0';
    for (int a = 1; a < ACTION_COUNT; a++)
        if (strcmp(text, actions[a].name) == 0)
            r->action = (action)a;
    if (r->action == NOTHING || !(actions[r->action].calls & (1u << r->call)))
        shim_stop("this call has no action", text);
    r->value = value ? strtod(value, NULL) : actions[r->action].value;
    if (r->action == ERROR && !value)
        r->value = r->call == BUILD ? CL_BUILD_PROGRAM_FAILURE : CL_OUT_OF_RESOURCES;
}

static void parse_entry(char *text)
{
    char *rest = text, *part[4];
    int n = 0;
    if (strncmp(text, "log=", 4) == 0) {
        shim.log = open(text + 4, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (shim.log < 0)
            shim_stop("cannot open", text);
        return;
    }
    if (strncmp(text, "platform=", 9) == 0) {
        shim.platform = text + 9;
        return;
    }
    if (strncmp(text, "devices=", 8) == 0) {
        shim.devices = text + 8;
        return;
    }
    if (strncmp(text, "largest=", 8) == 0) {
        shim.largest = strtoull(text + 8, NULL, 10);
        return;
    }
    if (strncmp(text, "builtin=", 8) == 0) {
        shim.builtin = text + 8;
        return;
    }
    if (strncmp(text, "memory=", 7) == 0) {
        shim.memory = strtoull(text + 7, NULL, 10);
        return;
    }
    while (n < 4 && (part[n] = strsep(&rest, ":")) != NULL)
        n++;
    if (n < 3 || rest || shim.n_rules == MAX_RULES)
        shim_stop("not CALL:MATCH:ACTION[:nth=N], or too many of them:", text);
    rule *r = &shim.rules[shim.n_rules++];
    r->call = CALL_COUNT;
    for (int c = 0; c < CALL_COUNT; c++)
        if (strcmp(part[0], call_names[c]) == 0)
            r->call = (call)c;
    if (r->call == CALL_COUNT)
        shim_stop("no such call", part[0]);
    r->match = part[1];
    parse_action(r, part[2]);
    if (n == 4 && sscanf(part[3], "nth=%ld", &r->nth) != 1 && sscanf(part[3], "from=%ld", &r->from) != 1 &&
        sscanf(part[3], "every=%ld", &r->every) != 1)
        shim_stop("neither nth=N nor from=N nor every=N:", part[3]);
}

/* The copy of the text is never freed: rules point into it. */
void shim_read_rules(void)
{
    const char *text = getenv("CLT_SHIM");
    if (shim.ready)
        return;
    shim.ready = true;
    char *rest = text ? strdup(text) : NULL, *entry;
    while (rest && (entry = strsep(&rest, ";")) != NULL)
        if (entry[0])
            parse_entry(entry);
}

static bool contains(const subject *s, const char *text)
{
    return memmem(s->source, s->length, text, strlen(text)) != NULL;
}

static bool one_test(const char *test, const subject *s)
{
    const char *value = strchr(test, '=');
    if (!value)
        return strstr(s->kernel, test) != NULL || strstr(s->family, test) != NULL;
    size_t key = (size_t)(++value - test); /* including the equals sign */
    if (strncmp(test, "kernel=", key) == 0)
        return s->kernel[0] ? strstr(s->kernel, value) != NULL : contains(s, value);
    if (strncmp(test, "family=", key) == 0)
        return strcmp(s->family, value) == 0;
    if (strncmp(test, "source=", key) == 0)
        return contains(s, value);
    if (strncmp(test, "option=", key) == 0)
        return strstr(s->options, value) != NULL;
    if (strncmp(test, "bytes=", key) == 0)
        return s->bytes == strtoull(value, NULL, 10);
    if (strncmp(test, "threads=", key) == 0)
        return s->threads == strtoull(value, NULL, 10);
    shim_stop("no such test", test);
    return false;
}

static bool matches(const rule *r, const subject *s)
{
    char copy[1024], *rest = copy, *test;
    if (strcmp(r->match, "*") == 0)
        return true;
    snprintf(copy, sizeof copy, "%s", r->match);
    while ((test = strsep(&rest, "+")) != NULL) {
        bool turned = test[0] == '!';
        if (one_test(test + turned, s) == turned)
            return false;
    }
    return true;
}

static void write_log(const rule *r, const subject *s)
{
    char line[512];
    int length = snprintf(line, sizeof line, "%d %s %s %s %s %ld\n", (int)getpid(), call_names[r->call],
                          s->family[0] ? s->family : "-", s->kernel[0] ? s->kernel : "-",
                          actions[r->action].name, r->matched);
    if (shim.log >= 0 && write(shim.log, line, (size_t)length) != length)
        abort();
}

action shim_judge(call c, const subject *s, double *value)
{
    for (int i = 0; i < shim.n_rules; i++) {
        rule *r = &shim.rules[i];
        if (r->call != c || !matches(r, s))
            continue;
        r->matched++;
        if ((r->nth && r->matched != r->nth) || (r->from && r->matched < r->from) ||
            (r->every && r->matched % r->every != 0))
            continue;
        write_log(r, s);
        *value = r->value;
        return r->action;
    }
    return NOTHING;
}

size_t shim_limit_of(const subject *s)
{
    size_t limit = SIZE_MAX;
    for (int i = 0; i < shim.n_rules; i++) {
        const rule *r = &shim.rules[i];
        if (r->action == LIMIT && !r->nth && matches(r, s) && (size_t)r->value < limit)
            limit = (size_t)r->value;
    }
    return limit;
}

const char *shim_platform(void)
{
    return shim.platform;
}

bool shim_device_name(unsigned place, char *name, size_t size)
{
    const char *at = shim.devices;
    for (; at && place > 0; place--)
        at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL;
    if (at)
        (void)snprintf(name, size, "%.*s", (int)strcspn(at, "/"), at);
    return at != NULL;
}

size_t shim_memory(void)
{
    return shim.memory;
}

size_t shim_largest_buffer(void)
{
    return shim.largest;
}

bool shim_builtin(char *text, size_t size)
{
    char name[64];
    double ulps = 0;
    text[0] = '\0';
    if (!shim.builtin)
        return false;
    if (sscanf(shim.builtin, "%63[a-z0-9_]/%lf", name, &ulps) != 2)
        shim_stop("not builtin=NAME/ULPS:", shim.builtin);
    /* The function calls the driver's, whose name may itself be a macro, before the name gets its new
     * meaning. */
    static const char *const types[] = {"float", "float2", "float3", "float4", "float8", "float16"};
    size_t used = 0;
    for (size_t i = 0; i < sizeof types / sizeof types[0] && used < size; i++)
        used += (size_t)snprintf(
            text + used, size - used,
            "%s __attribute__((overloadable)) wrong_built_in(%s x) { return %s(x) * %af; }\n", types[i],
            types[i], name, 1 + ulps * 0x1p-23);
    if (used < size)
        used +=
            (size_t)snprintf(text + used, size - used, "#undef %s\n#define %s wrong_built_in\n", name, name);
    if (used >= size)
        shim_stop("too long:", shim.builtin);
    return true;
}
