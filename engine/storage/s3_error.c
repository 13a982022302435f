/* SPDX-License-Identifier: Apache-2.0
 *
 * Explains what an answer of object storage probably means for the user, and reads sizes in answers. */
#include <string.h>

#include "engine/storage/s3_internal.h"

bool clt_s3_parse_size(const char *text, uint64_t *out)
{
    uint64_t size = 0;
    for (const char *c = text; *c; c++) {
        if (*c < '0' || *c > '9' || size > (uint64_t)(INT64_MAX - (*c - '0')) / 10)
            return false;
        size = size * 10 + (uint64_t)(*c - '0');
    }
    *out = size;
    return text[0] != '\0';
}

const char *clt_s3_right(const clt_s3_call *call)
{
    bool upload = false, uploads = false;
    for (int i = 0; i < call->n_query; i++) {
        upload = upload || strcmp(call->query[i].name, "uploadId") == 0;
        uploads = uploads || strcmp(call->query[i].name, "uploads") == 0;
    }
    if (!call->key[0])
        return uploads ? "s3:ListBucketMultipartUploads" : "s3:ListBucket";
    if (strcmp(call->method, "DELETE") == 0)
        return upload ? "s3:AbortMultipartUpload" : "s3:DeleteObject";
    return strcmp(call->method, "GET") == 0 || strcmp(call->method, "HEAD") == 0 ? "s3:GetObject"
                                                                                 : "s3:PutObject";
}

const char *clt_s3_hint(int code, const char *error)
{
    static const struct {
        const char *error, *hint;
    } hints[] = {
        {"SignatureDoesNotMatch", "the secret key is wrong"},
        {"InvalidAccessKeyId", "the server does not know this access key"},
        {"NoSuchBucket", "there is no such bucket"},
        {"AccessDenied", CLT_S3_NO_RIGHT},
        {"PreconditionFailed", "the object has been replaced meanwhile"},
        {"RequestTimeTooSkewed", "the clock of this machine is wrong"},
        {"EntityTooLarge", "the server does not take an object this large"},
    };
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (strcmp(hints[i].error, error) == 0)
            return hints[i].hint;
    return code == 403   ? CLT_S3_NO_RIGHT
           : code == 404 ? "there is no such object"
           : code == 412 ? "the object has been replaced meanwhile"
                         : "";
}
