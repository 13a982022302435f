/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the list of hosts, and counts the devices of all hosts in parallel with `cltrain probe --count`. */
#include "cli/launch/launch_hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/screen/shell_word.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/host/child.h"

#define MOST_SLOTS 1024
#define ANSWER_SECONDS 120.0 /* a driver may take long to list its devices for the first time */
#define SLICE_SECONDS 0.1    /* seconds between checks of the stop flag */

/* --- the list --- */

static clt_status add_host(launch_hosts *hosts, const char *name, size_t length, long slots,
                           const char *where)
{
    /* ssh takes a name that begins with a dash as an option; mpirun takes a colon or comma as a list's
     * separator */
    if (length == 0 || length >= sizeof hosts->host->name || name[0] == '-' || memchr(name, ':', length) ||
        memchr(name, ',', length))
        CLT_FAIL(CLT_EUSAGE, "cltrain launch: option --hosts: %s: '%.*s' is not the name of a host", where,
                 (int)length, name);
    if (slots < 0 || slots > MOST_SLOTS)
        CLT_FAIL(CLT_EUSAGE, "cltrain launch: option --hosts: %s: host '%.*s' needs 1 to %d ranks", where,
                 (int)length, name, MOST_SLOTS);
    for (int i = 0; i < hosts->count; i++)
        if (strncmp(hosts->host[i].name, name, length) == 0 && hosts->host[i].name[length] == '\0')
            CLT_FAIL(CLT_EUSAGE, "cltrain launch: option --hosts: %s: host '%s' is listed twice", where,
                     hosts->host[i].name);
    launch_host *more = realloc(hosts->host, ((size_t)hosts->count + 1) * sizeof *more);
    if (!more)
        CLT_FAIL(CLT_ENOMEM, "no memory for a list of hosts");
    hosts->host = more;
    launch_host *h = &hosts->host[hosts->count++];
    *h = (launch_host){.slots = (int)slots};
    memcpy(h->name, name, length);
    return CLT_OK;
}

/* Reads a number of ranks; -1: the text is not such a number. */
static long number(const char *text, size_t length)
{
    char *end;
    long value = strtol(text, &end, 10);
    return length > 0 && end == text + length && value > 0 ? value : -1;
}

static clt_status read_names(const char *text, launch_hosts *out)
{
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        const char *colon = memchr(at, ':', length);
        size_t name = colon ? (size_t)(colon - at) : length;
        CLT_TRY(add_host(out, at, name, colon ? number(colon + 1, length - name - 1) : 0, text));
        at += length;
        if (*at == '\0')
            return CLT_OK;
    }
}

static clt_status read_line(const char *line, size_t length, const char *where, launch_hosts *out)
{
    static const char blank[] = " \t\r";
    const char *end = line + length, *hash = memchr(line, '#', length);
    end = hash ? hash : end;
    line += strspn(line, blank);
    if (line >= end)
        return CLT_OK;
    size_t name = strcspn(line, " \t\r\n#");
    const char *at = line + name + strspn(line + name, blank);
    if (at >= end)
        return add_host(out, line, name, 0, where);
    size_t word = strcspn(at, " \t\r\n#");
    const char *rest = at + word + strspn(at + word, blank);
    if (strncmp(at, "slots=", 6) != 0 || rest < end)
        CLT_FAIL(CLT_EUSAGE, "cltrain launch: option --hosts: %s: '%.*s': a line is 'NAME' or 'NAME slots=N'",
                 where, (int)(end - line), line);
    return add_host(out, line, name, number(at + 6, word - 6), where);
}

static clt_status read_file(const char *path, launch_hosts *out)
{
    CLT_FREED char *text = NULL;
    char where[512];
    size_t size;
    CLT_TRY(clt_file_read(path, false, 1 << 20, CLT_EUSAGE, &text, &size));
    int line = 1;
    for (const char *at = text; *at; line++) {
        size_t length = strcspn(at, "\n");
        (void)snprintf(where, sizeof where, "%.400s:%d", path, line);
        CLT_TRY(read_line(at, length, where, out));
        at += length + (at[length] == '\n');
    }
    if (out->count == 0)
        CLT_FAIL(CLT_EUSAGE, "cltrain launch: option --hosts: %s names no host", path);
    return CLT_OK;
}

clt_status launch_hosts_read(const char *text, launch_hosts *out)
{
    *out = (launch_hosts){.far = text != NULL};
    if (!text)
        return add_host(out, "localhost", strlen("localhost"), 0, "");
    return access(text, F_OK) == 0 && !clt_is_directory(text) ? read_file(text, out) : read_names(text, out);
}

void launch_hosts_free(launch_hosts *hosts)
{
    free(hosts->host);
    *hosts = (launch_hosts){0};
}

clt_status launch_hosts_print(const launch_hosts *hosts, clt_str *out)
{
    for (int i = 0; i < hosts->count; i++)
        if (hosts->host[i].ranks > 0)
            clt_str_printf(out, "%s%s:%d", out->length ? "," : "", hosts->host[i].name, hosts->host[i].ranks);
    return clt_str_check(out);
}

/* --- counting --- */

/* Finds the program with which Open MPI starts its daemons: the first of alternatives such as "ssh : rsh". */
static void find_agent(char *out, size_t size)
{
    static const char *const names[] = {"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"};
    const char *agent = NULL;
    for (size_t i = 0; i < 2 && !(agent && agent[0]); i++)
        agent = getenv(names[i]);
    if (!agent || !agent[0])
        agent = "ssh -x -o BatchMode=yes -o ConnectTimeout=20";
    (void)snprintf(out, size, "%.*s", (int)strcspn(agent, ":"), agent);
}

static bool is_here(const char *name)
{
    char own[256] = "";
    return strcmp(name, "localhost") == 0 ||
           (gethostname(own, sizeof own - 1) == 0 && strcmp(name, own) == 0);
}

/* Starts `cltrain probe --count` on another host. A child writes its answer to its file descriptor 3. On the
 * remote host, descriptor 3 becomes the output of the command, which the agent (such as ssh) passes to the
 * pipe that is read here. */
static clt_status ask_far(const char *name, const char *program, const char *spec, clt_child **out)
{
    char agent[512];
    CLT_SCOPED(clt_str) inner = {0}, command = {0};
    shell_quote(&inner, program);
    clt_str_append(&inner, " probe --count --device ");
    shell_quote(&inner, spec);
    clt_str_append(&inner, " 3>&1 >&2 </dev/null | cat");
    CLT_TRY(clt_str_check(&inner));
    clt_str_append(&command, "exec sh -c ");
    shell_quote(&command, inner.text);
    CLT_TRY(clt_str_check(&command));
    find_agent(agent, sizeof agent);
    const char *const arguments[] = {"-c", "exec $0 \"$@\" >&3", agent, name, command.text, NULL};
    return clt_child_start("/bin/sh", arguments, 0, out);
}

static clt_status ask(const launch_host *h, const char *program, const char *spec, clt_child **out)
{
    const char *const arguments[] = {"probe", "--count", "--device", spec, NULL};
    return is_here(h->name) ? clt_child_start(program, arguments, 0, out)
                            : ask_far(h->name, program, spec, out);
}

/* Reads lines until one is the answer. The start files of the remote shell may print lines before it; the
 * first of these goes into `other`. False: no answer came before the time `until`, the child's end or
 * *stop. */
static bool find_answer(clt_child *child, double until, const atomic_int *stop, int *there, char kind[8],
                        char other[128])
{
    const char *line = NULL;
    other[0] = '\0';
    while (!atomic_load(stop) && clt_now() < until) {
        clt_child_event event = clt_child_next(child, SLICE_SECONDS, &line);
        if (event == CLT_CHILD_ENDED)
            return false;
        if (event == CLT_CHILD_LINE && sscanf(line, "devices %d %7s", there, kind) == 2)
            return true;
        if (event == CLT_CHILD_LINE && !other[0])
            (void)snprintf(other, 128, "%.127s", line);
    }
    return false;
}

/* Waits for the answer of a host. *there: its devices; 0: it did not answer, and h->why says why. */
static void hear(launch_host *h, clt_child *child, double until, const atomic_int *stop, int *there)
{
    char kind[8] = "", other[128];
    clt_child_end end;
    bool got = find_answer(child, until, stop, there, kind, other), late = clt_now() >= until;
    clt_child_stop(child, &end);
    h->cpu = strcmp(kind, "cpu") == 0;
    if (got)
        return;
    *there = 0;
    if (late)
        (void)snprintf(h->why, sizeof h->why, "it has not answered for %.0f s", ANSWER_SECONDS);
    else if (end.last_line[0] || !other[0])
        (void)snprintf(h->why, sizeof h->why, "%s", end.last_line[0] ? end.last_line : end.text);
    else
        (void)snprintf(h->why, sizeof h->why, "its answer is '%s'", other);
}

static clt_status take_answer(launch_host *h, bool far, int there, int devices, bool all)
{
    int asked = h->slots > 0 ? h->slots : devices;
    h->ranks = there == 0 ? 0 : asked > 0 ? asked : there;
    if (there == 0 && !far)
        CLT_FAIL(CLT_EDEVICE, "counting the devices of this host: %s; see 'cltrain doctor'", h->why);
    if (there == 0 && all)
        CLT_FAIL(CLT_EDEVICE,
                 "the devices of host %s cannot be counted: %s; the host needs cltrain at the same path and "
                 "a login without a password",
                 h->name, h->why);
    if (there > 0 && !h->cpu && asked > there)
        CLT_FAIL(CLT_EDEVICE,
                 "%s%s has %d matching devices, too few for %d ranks; ask for fewer ranks, or for other "
                 "devices with --device",
                 far ? "host " : "", far ? h->name : "this host", there, asked);
    return CLT_OK;
}

clt_status launch_hosts_ask(launch_hosts *hosts, const char *program, const char *spec, int devices, bool all,
                            const atomic_int *stop)
{
    clt_child **child = NULL;
    double until = clt_now() + ANSWER_SECONDS; /* for all hosts, since they are asked in parallel */
    clt_status status = CLT_OK;
    int there, ranks = 0;
    CLT_TRY(clt_alloc(&child, (size_t)hosts->count, sizeof *child, "a list of hosts"));
    for (int i = 0; status == CLT_OK && i < hosts->count; i++)
        status = ask(&hosts->host[i], program, spec ? spec : "", &child[i]);
    for (int i = 0; i < hosts->count && child[i]; i++) {
        if (status != CLT_OK) {
            clt_child_stop(child[i], NULL);
            continue;
        }
        hear(&hosts->host[i], child[i], until, stop, &there);
        status = atomic_load(stop)
                     ? clt_fail(CLT_EINTERRUPTED, __FILE__, __LINE__, "stopped while counting devices")
                     : take_answer(&hosts->host[i], hosts->far, there, devices, all);
        ranks += hosts->host[i].ranks;
    }
    free(child);
    if (status == CLT_OK && ranks == 0)
        CLT_FAIL(CLT_EDEVICE, "no host answered with its devices; %s: %s", hosts->host[0].name,
                 hosts->host[0].why);
    return status;
}
