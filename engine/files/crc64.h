/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC-64/XZ (polynomial of ECMA-182, as xz and 7-Zip compute it): a check sum of a file of which several processes
 * each know a part. It finds accidents, not attackers. */
#ifndef ENGINE_BASE_CRC64_H
#define ENGINE_BASE_CRC64_H

#include <stddef.h>
#include <stdint.h>

/* Of a whole file. */
uint64_t clt_crc64(const void *data, size_t size);

/* In parts: a part's remainder, moved by the number of bytes that follow it in the file, is its share. The exclusive or of
 * the shares of all parts, in any order, gives the file's sum. */
uint64_t clt_crc64_part(const void *data, size_t size);
uint64_t clt_crc64_move(uint64_t part, uint64_t bytes);
uint64_t clt_crc64_whole(uint64_t shares, uint64_t size);

/* The same move many times: clt_crc64_times(part, clt_crc64_step(bytes)) is clt_crc64_move(part, bytes). */
uint64_t clt_crc64_step(uint64_t bytes);
uint64_t clt_crc64_times(uint64_t part, uint64_t step);

#endif
