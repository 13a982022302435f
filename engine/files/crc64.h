/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC-64/XZ (polynomial of ECMA-182, as in xz and 7-Zip): a checksum that several processes can compute
 * together, each from its part of a file. It detects accidents, not attacks. */
#ifndef ENGINE_FILES_CRC64_H
#define ENGINE_FILES_CRC64_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of a whole file. */
uint64_t clt_crc64(const void *data, size_t size);

/* The checksum in parts. clt_crc64_part gives the remainder of a part. clt_crc64_move turns this remainder
 * into the part's share of the checksum; `bytes`: how many bytes follow the part in the file.
 * clt_crc64_whole makes the checksum from `shares`, the exclusive or of all shares in any order; `size`:
 * bytes of the file. */
uint64_t clt_crc64_part(const void *data, size_t size);
uint64_t clt_crc64_move(uint64_t part, uint64_t bytes);
uint64_t clt_crc64_whole(uint64_t shares, uint64_t size);

/* For many moves by the same number of bytes: clt_crc64_times(part, clt_crc64_step(bytes)) is
 * clt_crc64_move(part, bytes). */
uint64_t clt_crc64_step(uint64_t bytes);
uint64_t clt_crc64_times(uint64_t part, uint64_t step);

#endif
