# SPDX-License-Identifier: Apache-2.0
"""Devices on which mutants are tried: runs `cltrain verify` on a device, with the kernels as they are to record which programs the
checks build, and with changed kernels to test a mutant."""
import glob
import hashlib
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys

from mutant_programs import Recorded, option_defaults

SEED = "9"
BAD = ("FAIL ", "MISTRUST ", "UNIMPL ")


class Device:
    """The machine's default OpenCL device."""
    name = "opencl"
    defines = ["-D__OPENCL_VERSION__=120", "-D__OPENCL_C_VERSION__=120", "-D__ENDIAN_LITTLE__=1", "-D__clang__=1"]
    own = {}

    def __init__(self, folder, program, build, root):
        self.folder, self.program, self.build, self.root = folder, program, build, root
        self.recorded, self.prefix = None, []
        os.makedirs(folder, exist_ok=True)
        self.caches = os.path.join(folder, "caches")

    def prepare(self):
        pass

    def environment(self, caches):
        return {**os.environ, **self.own, "CLTRAIN_BUILDERS": "1", "CLTRAIN_CACHE_DIR": os.path.join(caches, "cltrain"),
                "POCL_CACHE_DIR": os.path.join(caches, "pocl")}

    def record(self, texts, pattern):
        """Runs the small cases once, with a log of the programs, unless an earlier run has recorded them. All must pass."""
        self.prepare()
        log, kept = os.path.join(self.folder, "record.log"), os.path.join(self.folder, "record.pickle")
        self.forget_others(pattern, (log, kept))
        if not os.path.exists(log):
            command = [self.program, "verify", "--caps", "all", "--jobs", "1", "--small", "-v", "--seed", SEED, "-t", pattern]
            with open(log + ".part", "w", encoding="utf-8") as out:
                code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False,
                                      env={**self.environment(self.caches), "CLTRAIN_LOG": "trace"}).returncode
            if code != 0:
                sys.exit(f"mutate.py: without a mutant, verify ends with code {code} on {self.name}: {log}.part")
            if self.violated(self.caches):
                sys.exit(f"mutate.py: without a mutant, {self.name} reports: {self.violated(self.caches)}")
            os.rename(log + ".part", log)
        if os.path.exists(kept):
            with open(kept, "rb") as file:
                self.recorded = pickle.load(file)
            return
        with open(log, encoding="utf-8", errors="replace") as lines:
            self.recorded = Recorded(lines.read().split("\n"), texts, self.defines)
        with open(kept, "wb") as file:
            pickle.dump(self.recorded, file)

    def forget_others(self, pattern, records):
        """Removes the records of another program, or of a run with another pattern, because its checks are not those of this run."""
        with open(self.program, "rb") as file:
            made = f"{hashlib.sha256(file.read()).hexdigest()} {pattern}"
        path = os.path.join(self.folder, "record.made_by")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                if file.read() == made:
                    return
        for record in records:
            if os.path.exists(record):
                os.remove(record)
        with open(path, "w", encoding="utf-8") as out:
            out.write(made)

    def violated(self, slot):
        """A rule that a kernel violated, as the device reports it, or None."""
        return None


class Simulated(Device):
    """The simulated NVIDIA GPU of tests/ptx: kernels compiled to PTX by clang, executed on the host, with races reported."""
    name = "ptx"
    defines = Device.defines + ["-D__NV_CL_C_VERSION=120"]
    own = {"CLTRAIN_PTX_SM": "90", "CLTRAIN_PTX_LOCAL_90A": "232448", "CLTRAIN_PTX_POISON": "0x7ff1fff3"}

    def prepare(self):
        names = ["clang"] + [f"clang-{n}" for n in range(19, 13, -1)]
        self.clang = next((n for n in names if shutil.which(n) and "nvptx64" in subprocess.run(
            [n, "--print-targets"], capture_output=True, text=True, check=False).stdout), None)
        driver = os.path.join(os.path.realpath(self.build), "tests", "ptx_driver.so")
        if self.clang is None or not os.path.exists(driver):
            sys.exit("mutate.py: the device ptx needs a clang with the target nvptx64, and --build with the folder that has "
                     "tests/ptx_driver.so")
        os.makedirs(os.path.join(self.folder, "icd"), exist_ok=True)
        os.makedirs(os.path.join(self.caches, "programs"), exist_ok=True)
        self.driver, self.builtins = driver, os.path.join(self.folder, "builtins.bc")
        with open(os.path.join(self.folder, "icd", "ptx.icd"), "w", encoding="utf-8") as out:
            out.write(driver + "\n")
        if not os.path.exists(self.builtins):
            subprocess.run([self.clang, "-x", "cl", "-cl-std=CL1.2", "-Xclang", "-include", "-Xclang", "opencl-c-base.h", "-target",
                            "nvptx64-nvidia-nvcl", "-Xclang", "-target-cpu", "-Xclang", "sm_70", "-O1", "-w", "-emit-llvm", "-c",
                            os.path.join(self.root, "tests", "ptx", "builtins.cl"), "-o", self.builtins], check=True)

    def environment(self, caches):
        return {**super().environment(caches), "OCL_ICD_VENDORS": os.path.join(self.folder, "icd"), "OCL_ICD_FILENAMES": self.driver,
                "CLTRAIN_PTX_CLANG": self.clang, "CLTRAIN_PTX_BUILTINS": self.builtins,
                "CLTRAIN_PTX_CACHE": os.path.join(caches, "programs"), "CLTRAIN_PTX_REPORT": os.path.join(caches, "report")}

    def violated(self, slot):
        path = os.path.join(slot, "report")
        if os.path.exists(path) and os.path.getsize(path):
            with open(path, encoding="utf-8", errors="replace") as text:
                return text.readline().strip()
        return None


class Watched(Device):
    """The interpreter Oclgrind: reads and writes outside of arrays, races, uninitialised values. It is slow, so it
    uses the record that was made on the default device."""
    name = "oclgrind"

    def __init__(self, folder, program, build, root):
        super().__init__(os.path.join(os.path.dirname(folder), Device.name), program, build, root)
        self.prefix = ["oclgrind", "--data-races", "--log", "report"]

    def prepare(self):
        if not shutil.which("oclgrind") or not os.path.exists(os.path.join(self.folder, "record.log")):
            sys.exit("mutate.py: the device oclgrind needs the program oclgrind, and a run on the device opencl first")

    def environment(self, caches):
        return {**super().environment(caches), "CLTRAIN_PROBE_SECONDS": "1000000", "CLTRAIN_CACHE_DIR": os.path.join(caches, "oclgrind")}

    violated = Simulated.violated


DEVICES = {d.name: d for d in (Device, Simulated, Watched)}


class Trial:
    """One of the parallel jobs. Its folder has the changed kernel, and its own caches, which begin as copies of the record's caches."""

    def __init__(self, device, slot, texts):
        self.device, self.texts = device, texts
        self.folder = os.path.join(device.folder, f"job{slot}.{device.name}")
        self.kernels = os.path.join(self.folder, "kernels")
        self.ms = {c.name: c.ms for c in device.recorded.checks}
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.kernels)
        if os.path.isdir(device.caches):
            subprocess.run(["cp", "-al", os.path.join(device.caches, "."), self.folder], check=False, stderr=subprocess.DEVNULL)
        self.known, self.runs = set(self.kept()), 0

    def kept(self):
        """The cached programs: a folder for each one in PoCL's cache, and the files of the simulated device."""
        return glob.glob(os.path.join(self.folder, "pocl", "*", "*")) + glob.glob(os.path.join(self.folder, "programs", "*"))

    def forget(self):
        """Removes the programs of mutants from the caches."""
        for path in set(self.kept()) - self.known:
            shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else os.remove(path)

    def verify(self, mutant, checks, modes, whole=False):
        """Runs the checks with the mutant until one fails: (state, the failure). With `whole` the remaining checks run, too, unless the
        failure took long: stopping early means killing the process, and then the next process reads PoCL's whole cache to check it."""
        for name in os.listdir(self.kernels):
            os.remove(os.path.join(self.kernels, name))
        with open(os.path.join(self.kernels, mutant.file), "w", encoding="utf-8") as out:
            out.write(option_defaults(mutant.apply(self.texts[mutant.file])))
        report = os.path.join(self.folder, "report")
        if os.path.exists(report):
            os.remove(report)
        command = [*self.device.prefix, self.device.program, "verify", "--caps", "all", "--jobs", "1", "--limit", "300", "--seed", SEED]
        command += ["-t", ",".join(checks)]
        command += ["--mode", modes] if modes else []
        seconds = (40 if whole else 60) + int(sum(10 * self.ms.get(c, 6e4) for c in checks) / 1000)

        def limits():
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", preexec_fn=limits, cwd=self.folder,
                              env={**self.device.environment(self.folder), "CLTRAIN_KERNEL_DIR": self.kernels}) as process:
            bad, reason, last = self.watch(process, whole)
        broken = self.device.violated(self.folder)
        self.runs += 1
        if self.runs % 100 == 0:
            self.forget()
        if broken:
            return "killed", broken
        if bad:
            state = "timeout" if self.used_up(reason) else (
                "refused" if "building kernel family" in reason or "CL_BUILD_PROGRAM_FAILURE" in reason else "killed")
            return state, f"{bad.split()[1]} {reason}"
        return ("survived", "") if process.returncode == 0 else ("killed", f"code {process.returncode}: {last}")

    @staticmethod
    def used_up(reason):
        return any(word in reason for word in ("SIGXCPU", "SIGKILL", "did not answer"))

    @staticmethod
    def watch(process, whole):
        """(line of the first failed check, its reason, last line). Ends the process after that check, unless `whole` is set."""
        bad, reason, last, told, stop = None, "", "", False, False
        for line in process.stdout:
            line = line.strip()
            if bad is None:
                bad = line if line.startswith(BAD) else None
                last = line or last
            elif not told:
                told = line.startswith("repeat:") or len(reason) > 300
                reason += "" if told else line + " "
                stop = told and (not whole or Trial.used_up(reason))
            if stop:
                break
        if stop:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.wait()
        return bad, reason, last
