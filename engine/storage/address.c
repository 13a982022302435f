/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and checks addresses of object storage, and makes the URL of a bucket's server. */
#include "engine/storage/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/text.h"

#define SCHEME "s3://"

bool clt_s3_is_address(const char *text)
{
    return strncmp(text, SCHEME, strlen(SCHEME)) == 0;
}

static bool is_bucket(const char *name, size_t length)
{
    static const char inside[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";
    return length >= 3 && length <= 63 && strspn(name, inside) >= length && !strchr("-.", name[0]) &&
           !strchr("-.", name[length - 1]);
}

clt_status clt_s3_address_parse(const char *text, clt_s3_address *out)
{
    *out = (clt_s3_address){.bucket = ""};
    if (!clt_s3_is_address(text))
        CLT_FAIL(CLT_EUSAGE, "'%s': an address of object storage looks like s3://bucket/prefix", text);
    const char *bucket = text + strlen(SCHEME);
    size_t length = strcspn(bucket, "/");
    if (!is_bucket(bucket, length))
        CLT_FAIL(
            CLT_EUSAGE,
            "'%s': the name of a bucket has 3 to 63 of a-z, 0-9, '-' and '.', and begins and ends with a "
            "letter or digit",
            text);
    const char *prefix = bucket[length] ? bucket + length + 1 : "";
    size_t size = strlen(prefix);
    while (size > 0 && prefix[size - 1] == '/')
        size--;
    if (size >= sizeof out->prefix)
        CLT_FAIL(CLT_EUSAGE, "s3://%.*s/...: a key has at most %d bytes", (int)length, bucket,
                 CLT_S3_KEY - 1);
    if (clt_text_plain(prefix) < strlen(prefix))
        CLT_FAIL(CLT_EUSAGE, "s3://%.*s/...: the prefix is not UTF-8, or has control characters", (int)length,
                 bucket);
    snprintf(out->bucket, sizeof out->bucket, "%.*s", (int)length, bucket);
    snprintf(out->prefix, sizeof out->prefix, "%.*s", (int)size, prefix);
    return CLT_OK;
}

/* --- servers --- */

/* The host of an address; *size: its bytes, without the port. "" if the text is not an address. */
static const char *host_of(const char *url, size_t *size)
{
    const char *at = strstr(url, "://");
    at = at ? at + 3 : "";
    if (*at == '[')
        *size = strcspn(at, "]") + (strchr(at, ']') != NULL);
    else
        *size = strcspn(at, ":/?#");
    return at;
}

bool clt_host_is(const char *url, const char *host)
{
    size_t size;
    const char *found = host_of(url, &size);
    return strlen(host) == size && strncasecmp(found, host, size) == 0;
}

/* True if the host is an IPv4 address whose first two numbers are `first` and `second`; -1: any number. */
static bool is_number(const char *url, int first, int second)
{
    size_t size;
    const char *host = host_of(url, &size);
    char text[64];
    int part[4], length = 0;
    snprintf(text, sizeof text, "%.*s", (int)(size < sizeof text ? size : sizeof text - 1), host);
    if (sscanf(text, "%3d.%3d.%3d.%3d%n", &part[0], &part[1], &part[2], &part[3], &length) != 4 ||
        text[length])
        return false;
    return (first < 0 || part[0] == first) && (second < 0 || part[1] == second);
}

bool clt_host_is_loopback(const char *url)
{
    return is_number(url, 127, -1) || clt_host_is(url, "localhost") || clt_host_is(url, "[::1]");
}

bool clt_host_is_local(const char *url)
{
    size_t size;
    const char *host = host_of(url, &size);
    return clt_host_is_loopback(url) || is_number(url, 169, 254) || strncasecmp(host, "[fe80:", 6) == 0 ||
           clt_host_is(url, "[fd00:ec2::23]") || clt_host_is(url, "[fd00:ec2::254]");
}

clt_status clt_endpoint_parse(const char *text, const char *what, const char *plain_host, clt_endpoint *out)
{
    bool tls = strncmp(text, "https://", 8) == 0;
    if (!tls && strncmp(text, "http://", 7) != 0)
        CLT_FAIL(CLT_EUSAGE, "%s: must begin with https:// or http://", what);
    const char *host = text + (tls ? 8 : 7);
    size_t size = strcspn(host, "/");
    if (memchr(host, '@', size)) /* the message does not show the text, since it may hold a password */
        CLT_FAIL(CLT_EUSAGE, "%s: has a user or a password, which do not belong there", what);
    if (host[size + strspn(host + size, "/")] || size == 0 || size >= sizeof out->host - 64 ||
        strcspn(host, " \t\r\n?#%\\\"<>") < size)
        CLT_FAIL(CLT_EUSAGE, "%s: must be https:// and the name of a server, perhaps with :port, and no path",
                 what);
    const char *usual = tls ? ":443" : ":80";
    size_t cut = size > strlen(usual) && memcmp(host + size - strlen(usual), usual, strlen(usual)) == 0
                     ? strlen(usual)
                     : 0;
    *out = (clt_endpoint){.tls = tls};
    snprintf(out->host, sizeof out->host, "%.*s", (int)(size - cut), host);
    if (!tls && !clt_host_is_loopback(text) && strcmp(plain_host, out->host) != 0 &&
        !(plain_host[0] && clt_host_is(text, plain_host)))
        CLT_FAIL(CLT_EUSAGE,
                 "%s: %s uses http://, so anyone on the network can read the data; use https://, or name the "
                 "server in storage.allow_http",
                 what, out->host);
    return CLT_OK;
}

clt_status clt_endpoint_of_region(const char *region, clt_endpoint *out)
{
    if (!region[0] || strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") < strlen(region) ||
        strlen(region) > 40)
        CLT_FAIL(CLT_EUSAGE, "'%.60s' is not a region; one is called eu-central-1, for example", region);
    *out = (clt_endpoint){.tls = true};
    snprintf(out->host, sizeof out->host, "s3.%s.amazonaws.com%s", region,
             strncmp(region, "cn-", 3) == 0 ? ".cn" : "");
    return CLT_OK;
}

bool clt_endpoint_by_path(const clt_endpoint *endpoint, const char *bucket)
{
    char url[300];
    snprintf(url, sizeof url, "x://%s", endpoint->host);
    return strchr(bucket, '.') || strchr(endpoint->host, ':') || is_number(url, -1, -1) ||
           clt_host_is(url, "localhost");
}
