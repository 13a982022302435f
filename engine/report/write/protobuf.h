/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the wire format of Protocol Buffers: fields are appended to a string; a nested message is built in a
 * string of its own and then appended as a field. It knows no message type. Lack of memory is remembered in
 * the string (clt_str_check). */
#ifndef ENGINE_REPORT_WRITE_PROTOBUF_H
#define ENGINE_REPORT_WRITE_PROTOBUF_H

#include "engine/base/mem.h"

void clt_pb_int(clt_str *out, uint32_t field, int64_t value); /* int32, int64, bool, enum */
void clt_pb_double(clt_str *out, uint32_t field, double value);
void clt_pb_float(clt_str *out, uint32_t field, float value);
void clt_pb_bytes(clt_str *out, uint32_t field, const void *data, size_t size);
/* As UTF-8; invalid bytes become U+FFFD. */
void clt_pb_string(clt_str *out, uint32_t field, const char *text);
/* Appends the message, which is then empty but keeps its memory for the next one. */
void clt_pb_message(clt_str *out, uint32_t field, clt_str *message);

#endif
