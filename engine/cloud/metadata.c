/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes requests to a cloud's metadata service, with the token of its session, and finds out to which cloud
 * this machine belongs. No request ever goes to the service of another cloud. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/cloud/notice_source.h"
#include "engine/files/fileio.h"
#include "engine/host/cores.h"

#define CONNECT_SECONDS 1.0
#define ASK_SECONDS 2.0

void clt_notice_make(clt_notice *out, clt_notice_kind kind, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(out->text, sizeof out->text, format, args);
    va_end(args);
    out->kind = kind;
    for (char *c = out->text; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            *c = ' ';
}

static clt_status trouble(clt_notice_poller *poller, const char *path, int code, const char *why)
{
    poller->code = code;
    snprintf(poller->trouble, sizeof poller->trouble, "%.100s%.90s: %.60s",
             poller->secret ? "cloud.notice_url" : poller->base, path, why);
    CLT_FAIL(CLT_EDATA, "%s", poller->trouble);
}

clt_status clt_metadata_request(clt_notice_poller *poller, const char *method, const char *path,
                                const char *header, double seconds, clt_http_answer *answer)
{
    char url[4096];
    const char *const headers[] = {header, NULL};
    snprintf(url, sizeof url, "%s%s", poller->base, path);
    CLT_TRY(clt_http_ask(poller->http,
                         &(clt_http_request){.method = method,
                                             .url = url,
                                             .headers = headers,
                                             .connect_seconds = CONNECT_SECONDS,
                                             .seconds = seconds > 0 ? seconds : ASK_SECONDS,
                                             .limit = CLT_METADATA_LIMIT},
                         answer));
    if (answer->code)
        return CLT_OK;
    return trouble(poller, path, 0, answer->reason);
}

clt_status clt_metadata_strange(clt_notice_poller *poller, const char *path, const clt_http_answer *answer)
{
    char text[64];
    snprintf(text, sizeof text, "answer %d, which cannot be understood", answer->code);
    return trouble(poller, path, answer->code, text);
}

void clt_metadata_address(clt_notice_poller *poller, const clt_notice_source *source, const char *endpoint)
{
    const char *given = source->variable ? getenv(source->variable) : NULL, *address = source->address;
    const char *mode = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
    if (source == &clt_notice_url) {
        snprintf(poller->base, sizeof poller->base, "%s", poller->options->url);
        return;
    }
    if (source == &clt_notice_aws && mode && strcasecmp(mode, "IPv6") == 0)
        address = "http://[fd00:ec2::254]";
    if (given && given[0])
        address = given;
    if (endpoint[0])
        address = endpoint;
    snprintf(poller->base, sizeof poller->base, "%s%s", strstr(address, "://") ? "" : "http://", address);
    size_t length = strlen(poller->base);
    if (length && poller->base[length - 1] == '/')
        poller->base[length - 1] = '\0';
}

/* Fetches a token. A service that is too old for tokens answers 403, 404 or 405. */
static clt_status fetch_token(clt_notice_poller *poller, const char *ttl, const char *name,
                              bool may_go_without)
{
    static const char path[] = "/latest/api/token";
    clt_http_answer answer;
    poller->token[0] = '\0';
    CLT_TRY(clt_metadata_request(poller, "PUT", path, ttl, 0, &answer));
    if (answer.code == 200 && answer.size > 0 && answer.size < sizeof poller->token - 128 &&
        strcspn(answer.body, "\r\n \t") == answer.size) {
        snprintf(poller->token, sizeof poller->token, "%s: %s", name, answer.body);
        return CLT_OK;
    }
    poller->without_token =
        may_go_without && (answer.code == 403 || answer.code == 404 || answer.code == 405);
    return poller->without_token ? CLT_OK : clt_metadata_strange(poller, path, &answer);
}

clt_status clt_metadata_with_token(clt_notice_poller *poller, const char *path, const char *ttl,
                                   const char *name, bool may_go_without, clt_http_answer *answer)
{
    for (int attempt = 0;; attempt++) {
        if (!poller->token[0] && !poller->without_token)
            CLT_TRY(fetch_token(poller, ttl, name, may_go_without));
        CLT_TRY(
            clt_metadata_request(poller, "GET", path, poller->token[0] ? poller->token : NULL, 0, answer));
        if (answer->code != 401 || attempt > 0)
            break;
        poller->token[0] = '\0'; /* the token has expired */
        poller->without_token = false;
    }
    return answer->code == 401 ? clt_metadata_strange(poller, path, answer) : CLT_OK;
}

clt_status clt_metadata_aws(clt_notice_poller *poller, const char *path, clt_http_answer *answer)
{
    const char *disabled = getenv("AWS_EC2_METADATA_V1_DISABLED");
    return clt_metadata_with_token(poller, path, "X-aws-ec2-metadata-token-ttl-seconds: 21600",
                                   "X-aws-ec2-metadata-token", !disabled || strcasecmp(disabled, "true") != 0,
                                   answer);
}

/* --- the machine --- */

/* Reads the first line of a file of the kernel; "" if it cannot be read. */
static void line_of(const char *path, char *line, size_t size)
{
    char full[512];
    CLT_FREED char *text = NULL;
    size_t length;
    snprintf(full, sizeof full, "%s/%s", clt_sysfs(), path);
    line[0] = '\0';
    if (clt_file_read(full, false, 4096, CLT_EDATA, &text, &length) != CLT_OK) {
        clt_error_clear();
        return;
    }
    snprintf(line, size, "%.*s", (int)strcspn(text, "\n"), text);
}

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);
    return value && value[0];
}

const char *clt_cloud_found(void)
{
    static const struct {
        const char *file, *text, *cloud;
        bool begins; /* the line must begin with `text`; false: it must equal `text` */
    } signs[] = {{"class/dmi/id/sys_vendor", "Amazon EC2", "aws", false},
                 {"hypervisor/uuid", "ec2", "aws", true},
                 {"class/dmi/id/product_name", "Google Compute Engine", "gcp", false},
                 {"class/dmi/id/product_name", "Alibaba Cloud ECS", "alibaba", false},
                 {"class/dmi/id/chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", "azure", false}};
    const char *disabled = getenv("AWS_EC2_METADATA_DISABLED");
    bool no_aws = disabled && strcasecmp(disabled, "true") == 0;
    if (is_set("AWS_EC2_METADATA_SERVICE_ENDPOINT") && !no_aws)
        return "aws";
    if (is_set("GCE_METADATA_HOST"))
        return "gcp";
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        char line[256];
        line_of(signs[i].file, line, sizeof line);
        if (signs[i].begins ? strncmp(line, signs[i].text, strlen(signs[i].text)) == 0
                            : strcmp(line, signs[i].text) == 0)
            return no_aws && strcmp(signs[i].cloud, "aws") == 0 ? NULL : signs[i].cloud;
    }
    return NULL;
}

const char *clt_cloud_of_machine(void)
{
    const char *standing = getenv("CLTRAIN_CLOUD_PROVIDER");
    return standing && standing[0] ? standing : clt_cloud_found();
}
