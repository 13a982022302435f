/* SPDX-License-Identifier: Apache-2.0
 *
 * Downloads one file with the program curl or wget, which handle proxies, certificates and redirections.
 * The program is started directly, without a shell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/data/open/fetch.h"
#include "engine/files/fileio.h"
#include "engine/host/child.h"
#include "engine/host/find_program.h"

#define LOOK_SECONDS 0.25 /* interval at which the size of the growing file is read */

static uint64_t size_of(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
}

/* Waits for the program and reports how the file grows. CLT_EDATA: the file has more than four times
 * `expected` bytes. */
static clt_status follow(const clt_fetch_options *o, clt_child *child, const char *url, const char *what,
                         const char *part, uint64_t expected)
{
    const char *line;
    for (;;) {
        clt_child_event event = clt_child_next(child, LOOK_SECONDS, &line);
        uint64_t now = size_of(part);
        if (o->progress)
            CLT_TRY(o->progress(o->context, what, now, expected));
        if (event == CLT_CHILD_ENDED)
            return CLT_OK;
        if (expected > 0 && now / 4 > expected)
            CLT_FAIL(CLT_EDATA, "%s: it sends more than four times the %llu bytes of the published file", url,
                     (unsigned long long)expected);
    }
}

static void stop(clt_child *child, clt_child_end *end)
{
    CLT_KEEP_ERROR();
    clt_child_stop(child, end);
}

clt_status clt_fetch_download(const clt_fetch_options *o, const char *url, const char *what, const char *part,
                              uint64_t expected)
{
    CLT_FREED char *program = NULL;
    char output[4200];
    const char *const curl[] = {"--fail",
                                "--location",
                                "--silent",
                                "--show-error",
                                "--proto",
                                "=http,https",
                                "--proto-redir",
                                "=http,https",
                                "--connect-timeout",
                                "20",
                                "--speed-limit",
                                "500",
                                "--speed-time",
                                "60",
                                "--continue-at",
                                "-",
                                "--output",
                                part,
                                "--url",
                                url,
                                NULL};
    /* wget would follow redirections to FTP, too; this proxy, where nothing answers, prevents that */
    const char *const wget[] = {
        "--no-verbose", "--continue", "--tries=2", "--timeout=30", "--execute=ftp_proxy=http://127.0.0.1:9/",
        output,         url,          NULL};
    bool has_curl = clt_program_named("curl", &program) == CLT_OK;
    if (!has_curl && clt_program_named("wget", &program) != CLT_OK)
        CLT_FAIL(
            CLT_EDATA,
            "neither curl nor wget is installed to load it with (on Debian and Ubuntu: apt-get install curl "
            "ca-certificates)");
    clt_error_clear();
    snprintf(output, sizeof output, "--output-document=%s", part);
    clt_child *child = NULL;
    clt_child_end end;
    CLT_TRY(clt_child_start(program, has_curl ? curl : wget, 0, &child));
    clt_status status = follow(o, child, url, what, part, expected);
    stop(child, &end);
    CLT_TRY(status);
    if (end.signal == 0 && end.code == 0)
        return CLT_OK;
    CLT_FAIL(CLT_EDATA, "%s: %s", url, end.last_line[0] ? end.last_line : end.text);
}
