/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the wire format of Protocol Buffers. Numbers are written little-endian on every host. */
#include "engine/report/write/protobuf.h"

#include <string.h>

#include "engine/base/text.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_LENGTH = 2, WIRE_32 = 5 };

static void varint(clt_str *out, uint64_t value)
{
    char bytes[10];
    size_t n = 0;
    do {
        bytes[n] = (char)(value & 0x7fu);
        value >>= 7;
        if (value)
            bytes[n] = (char)(bytes[n] | (char)0x80);
        n++;
    } while (value);
    clt_str_append_n(out, bytes, n);
}

static void key(clt_str *out, uint32_t field, unsigned wire)
{
    varint(out, (uint64_t)field << 3 | wire);
}

static void little_endian(clt_str *out, uint64_t value, size_t size)
{
    char bytes[8];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(value >> 8 * i & 0xffu);
    clt_str_append_n(out, bytes, size);
}

void clt_pb_int(clt_str *out, uint32_t field, int64_t value)
{
    key(out, field, WIRE_VARINT);
    varint(out, (uint64_t)value);
}

void clt_pb_double(clt_str *out, uint32_t field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    key(out, field, WIRE_64);
    little_endian(out, bits, 8);
}

void clt_pb_float(clt_str *out, uint32_t field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    key(out, field, WIRE_32);
    little_endian(out, bits, 4);
}

void clt_pb_bytes(clt_str *out, uint32_t field, const void *data, size_t size)
{
    key(out, field, WIRE_LENGTH);
    varint(out, size);
    clt_str_append_n(out, data, size);
}

void clt_pb_string(clt_str *out, uint32_t field, const char *text)
{
    CLT_SCOPED(clt_str) clean = {0};
    size_t left = strlen(text), good = 0;
    while (good < left) {
        size_t size = clt_utf8_size(text + good, left - good);
        if (size == 0)
            break;
        good += size;
    }
    if (good == left) {
        clt_pb_bytes(out, field, text, left);
        return;
    }
    for (size_t size; left > 0; text += size, left -= size) {
        size = clt_utf8_size(text, left);
        if (size > 0)
            clt_str_append_n(&clean, text, size);
        else
            clt_str_append(&clean, "\xef\xbf\xbd");
        size = size > 0 ? size : 1;
    }
    out->failed |= clean.failed;
    clt_pb_bytes(out, field, clean.text, clean.length);
}

void clt_pb_message(clt_str *out, uint32_t field, clt_str *message)
{
    out->failed |= message->failed;
    clt_pb_bytes(out, field, message->text, message->length);
    message->length = 0;
}
