/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds a device's place on the PCI bus, by Khronos', NVIDIA's or AMD's extension. The place identifies a
 * device whose index differs between processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/device/internal.h"

#define KHR_PCI_BUS_INFO 0x410F
#define NV_PCI_BUS_ID 0x4008
#define NV_PCI_SLOT_ID 0x4009
#define NV_PCI_DOMAIN_ID 0x400A
#define AMD_TOPOLOGY 0x4037
#define AMD_TOPOLOGY_PCIE 1

static bool ask(cl_device_id id, cl_device_info what, size_t size, void *out)
{
    size_t has = 0;
    return clGetDeviceInfo(id, what, 0, NULL, &has) == CL_SUCCESS && has == size &&
           clGetDeviceInfo(id, what, size, out, NULL) == CL_SUCCESS;
}

void ocl_device_ask_pci(cl_device_id id, char *out, size_t size)
{
    cl_uint khr[4], bus, slot, domain = 0;
    struct {
        cl_uint type;
        unsigned char unused[17], bus, device, function;
    } amd;
    CLT_FREED char *extensions = NULL;
    out[0] = '\0';
    if (ocl_device_extensions(id, &extensions) != CLT_OK)
        clt_error_clear();
    else if (strstr(extensions, "cl_khr_pci_bus_info") && ask(id, KHR_PCI_BUS_INFO, sizeof khr, khr))
        snprintf(out, size, "%04x:%02x:%02x.%x", khr[0], khr[1], khr[2], khr[3]);
    else if (strstr(extensions, "cl_nv_device_attribute_query") && ask(id, NV_PCI_BUS_ID, sizeof bus, &bus) &&
             ask(id, NV_PCI_SLOT_ID, sizeof slot, &slot)) {
        (void)ask(id, NV_PCI_DOMAIN_ID, sizeof domain, &domain);
        snprintf(out, size, "%04x:%02x:%02x.%x", domain, bus, slot >> 3, slot & 7);
    } else if (strstr(extensions, "cl_amd_device_attribute_query") &&
               ask(id, AMD_TOPOLOGY, sizeof amd, &amd) && amd.type == AMD_TOPOLOGY_PCIE)
        snprintf(out, size, "%04x:%02x:%02x.%x", 0u, amd.bus, amd.device, amd.function);
}
