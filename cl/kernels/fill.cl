/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that fill buffers, for drivers whose clEnqueueFillBuffer cannot be trusted (quirk fill_by_kernel).
 * They must not know what the buffers contain. */

/* fill_u32: buffer[offset .. offset+count) = pattern, for any global size. */
__kernel void fill_u32(__global uint *buffer, ulong offset, ulong count, uint pattern)
{
    for (ulong i = get_global_id(0); i < count; i += get_global_size(0))
        buffer[offset + i] = pattern;
}

__kernel void fill_u8(__global uchar *buffer, ulong offset, ulong count, uint pattern)
{
    for (ulong i = get_global_id(0); i < count; i += get_global_size(0))
        buffer[offset + i] = (uchar)pattern;
}
