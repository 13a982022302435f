# SPDX-License-Identifier: Apache-2.0
"""Checks the files of deploy/ for what their makers' validators do not know or may not be there to say: fields that exist, code 75,
rights, encryption, what a run needs to save before its machine is gone. Complaints go to the standard output.

usage: deploy_check.py FOLDER NAME...          checks FOLDER/NAME, a file of deploy/ or a copy of one
       deploy_check.py FOLDER --files NAME TO   writes the files that FOLDER/NAME, a file of cloud-init, would write, into TO
       deploy_check.py FOLDER --commands NAME   prints the commands of cltrain in it, a line each, its words quoted for the shell"""
import json
import os
import re
import shlex
import sys

import deploy_read
from deploy_read import Wrong

# The fields that our files may contain: `TYPE: field field:TYPE ...`.
FIELDS = '''
PersistentVolumeClaim: apiVersion kind metadata:Meta spec:ClaimSpec
ClaimSpec: accessModes storageClassName resources:Amounts
Meta: name namespace labels annotations
Job: apiVersion kind metadata:Meta spec:JobSpec
JobSpec: completionMode completions parallelism backoffLimitPerIndex backoffLimit maxFailedIndexes podFailurePolicy:FailurePolicy
JobSpec: activeDeadlineSeconds ttlSecondsAfterFinished suspend template:PodTemplate
FailurePolicy: rules:FailureRule
FailureRule: action onExitCodes:ExitCodes onPodConditions:PodCondition
ExitCodes: containerName operator values
PodCondition: type status
PodTemplate: metadata:Meta spec:PodSpec
PodSpec: restartPolicy terminationGracePeriodSeconds automountServiceAccountToken serviceAccountName securityContext:PodSecurity tolerations:Toleration
PodSpec: nodeSelector runtimeClassName priorityClassName imagePullSecrets containers:Container volumes:Volume
PodSecurity: runAsNonRoot runAsUser runAsGroup fsGroup seccompProfile:Profile
Profile: type
Toleration: key operator value effect
Container: name image args command env envFrom resources:Amounts securityContext:Security volumeMounts:Mount readinessProbe:Probe
Security: allowPrivilegeEscalation readOnlyRootFilesystem capabilities:Capabilities
Capabilities: drop
Amounts: requests limits
Mount: name mountPath readOnly
Probe: tcpSocket:Socket
Socket: port
Volume: name persistentVolumeClaim:Claim emptyDir:EmptyDir
Claim: claimName
EmptyDir: medium sizeLimit
MPIJob: apiVersion kind metadata:Meta spec:MPISpec
MPISpec: slotsPerWorker runLauncherAsWorker sshAuthMountPath launcherCreationPolicy mpiImplementation runPolicy:RunPolicy mpiReplicaSpecs:Replicas
RunPolicy: cleanPodPolicy ttlSecondsAfterFinished activeDeadlineSeconds backoffLimit suspend managedBy schedulingPolicy
Replicas: Launcher:Replica Worker:Replica
Replica: replicas restartPolicy template:PodTemplate
Sky: name workdir num_nodes resources:SkyResources file_mounts envs secrets setup run
SkyResources: infra accelerators use_spot cpus memory disk_size image_id max_hourly_cost any_of job_recovery:SkyRecovery
SkyRecovery: strategy max_restarts_on_errors recover_on_exit_codes
CloudConfig: users write_files:WrittenFile runcmd packages
WrittenFile: path permissions owner content
Terraform: required_version required_providers:Providers
Providers: aws google
aws: region default_tags:DefaultTags
DefaultTags: tags
google: project region zone
aws_ssm_parameter: name
aws_iam_policy_document: statement:Statement
Statement: actions principals:Principals
Principals: type identifiers
aws_iam_role: name_prefix assume_role_policy
aws_iam_role_policy: name role policy
aws_iam_instance_profile: name_prefix role
aws_security_group: name_prefix description vpc_id egress:Rule
Rule: description from_port to_port protocol cidr_blocks
aws_instance: ami instance_type iam_instance_profile vpc_security_group_ids subnet_id instance_market_options:Market tags user_data
aws_instance: instance_initiated_shutdown_behavior metadata_options:Metadata root_block_device:RootDisk user_data_replace_on_change depends_on
aws_instance: lifecycle:Lifecycle
Market: market_type spot_options:Spot
Spot: spot_instance_type instance_interruption_behavior max_price valid_until
Metadata: http_endpoint http_tokens http_put_response_hop_limit instance_metadata_tags
RootDisk: volume_size volume_type encrypted delete_on_termination kms_key_id
Lifecycle: ignore_changes
google_service_account: account_id display_name
google_storage_bucket_iam_member: bucket role member condition:Condition
Condition: title description expression
google_compute_network: name auto_create_subnetworks
google_compute_subnetwork: name network ip_cidr_range private_ip_google_access
google_compute_instance: name machine_type labels scheduling:Scheduling boot_disk:BootDisk network_interface:Interface service_account:Account
google_compute_instance: metadata lifecycle:Lifecycle depends_on guest_accelerator
Scheduling: provisioning_model preemptible automatic_restart on_host_maintenance instance_termination_action max_run_duration
BootDisk: kms_key_self_link initialize_params:Image
Image: image size type
Interface: subnetwork
Account: email scopes
variable: description type default validation:Validation
Validation: condition error_message
output: description value
'''
TYPES = {}
for line in FIELDS.strip().split('\n'):
    kind, _, words = line.partition(': ')
    for word in words.split():
        field, _, inner = word.partition(':')
        TYPES.setdefault(kind, {})[field] = inner


def unknown_fields(node, kind, where):
    """Fields that a thing of this kind does not have."""
    if isinstance(node, list):
        return [text for item in node for text in unknown_fields(item, kind, where)]
    if not isinstance(node, dict) or not kind:
        return [] if not kind else [f'{where}: a {kind} is expected']
    found = []
    for field, value in node.items():
        if field not in TYPES[kind]:
            found.append(f'{where}: a {kind} has no field {field}')
        else:
            found += unknown_fields(value, TYPES[kind][field], f'{where}.{field}')
    return found


def get(node, path, default=None):
    for step in path.split('.'):
        node = node.get(step, default) if isinstance(node, dict) else default
    return node


class Wants:
    """Collects complaints."""

    def __init__(self):
        self.found = []

    def that(self, condition, text):
        if not condition:
            self.found.append(text)

    def value(self, node, path, wanted):
        got = get(node, path)
        self.that(got == wanted and type(got) is type(wanted), f'{path} is {got}, not {wanted}')


def of_dockerfile(text, wants):
    steps = deploy_read.dockerfile(text)
    known = ('ARG', 'FROM', 'SHELL', 'WORKDIR', 'COPY', 'RUN', 'ENV', 'USER', 'STOPSIGNAL', 'ENTRYPOINT', 'CMD')
    stages, user, base = {}, {}, ''
    for word, rest in steps:
        wants.that(word in known, f'{word} is not an instruction that is used here')
        if word == 'FROM':
            image, _, name = rest.partition(' AS ')
            base = name
            stages[name] = list(stages.get(image, []))
            user[name] = user.get(image, 'root')
        elif base:
            stages[base].append((word, rest))
            user[base] = rest if word == 'USER' else user[base]
    for name in ('runtime', 'mpi', 'cpu'):
        wants.that(re.fullmatch(r'[1-9][0-9]*:[1-9][0-9]*', user.get(name, '')), f'the stage {name} runs as {user.get(name)}, not as a numbered user')
        words = dict(stages.get(name, []))
        wants.that(words.get('STOPSIGNAL') == 'SIGTERM', f'the stage {name} does not stop by SIGTERM')
        wants.that(words.get('ENTRYPOINT') == '["cltrain"]', f'the stage {name}: ENTRYPOINT is not the program itself')
        wants.that('compute,utility' in words.get('ENV', ''), f'the stage {name}: NVIDIA_DRIVER_CAPABILITIES lacks compute,utility')
        for place in re.findall(r'apt-get install ([^&]*)', ' '.join(rest for _, rest in stages.get(name, []))):
            wants.that('-y' in place.split(), f'the stage {name}: apt-get install asks questions without -y')
            wants.that('--no-install-recommends' in place, f'the stage {name}: apt-get installs what is not needed')
    wants.that(list(stages)[-1:] == ['runtime'], 'the last stage is not runtime')
    wants.that('echo libnvidia-opencl.so.1 >/etc/OpenCL/vendors/nvidia.icd' in text, 'no file names libnvidia-opencl.so.1 to OpenCL')
    runtime = ' '.join(rest for _, rest in stages.get('runtime', []))
    for package in ('ocl-icd-libopencl1', 'libclblast1', 'libcjson1', 'libcurl4', 'openmpi-bin'):
        wants.that(package in runtime, f'the package {package} is not installed')
    wants.that(not re.search(r'cuda|libnvidia-(?!opencl)|nvidia-driver|pip install', runtime), 'CUDA, a driver or Python packages are installed')


def of_pod(pod, kind, wants):
    security = get(pod, 'securityContext', {})
    wants.value(security, 'runAsNonRoot', True)
    wants.that(isinstance(security.get('runAsUser'), int) and security['runAsUser'] > 0, 'runAsUser is not a number of a user')
    wants.value(pod, 'automountServiceAccountToken', False)
    wants.that(get(pod, 'terminationGracePeriodSeconds', 0) >= 60, 'terminationGracePeriodSeconds leaves less than a minute for a save')
    volumes = {volume['name'] for volume in pod.get('volumes', [])}
    for container in pod.get('containers', []):
        wants.value(container, 'securityContext.allowPrivilegeEscalation', False)
        wants.value(container, 'securityContext.capabilities.drop', ['ALL'])
        requests, limits = get(container, 'resources.requests'), get(container, 'resources.limits')
        wants.that(requests and requests == limits, f'requests {requests} differ from limits {limits}')
        wants.that({'cpu', 'memory'} <= set(limits or {}), 'cpu or memory has no limit')
        wants.that(re.fullmatch(r'[\w./-]+:[0-9][\w.-]*', container.get('image', '')), f'the image {container.get("image")} has no version')
        for mount in container.get('volumeMounts', []):
            wants.that(mount['name'] in volumes, f'no volume has the name {mount["name"]}')
        if 'nvidia.com/gpu' in (limits or {}):
            shared = {mount['name'] for mount in container['volumeMounts'] if mount['mountPath'] == '/dev/shm'}
            memory = {volume['name'] for volume in pod['volumes'] if get(volume, 'emptyDir.medium') == 'Memory'}
            wants.that(shared & memory, '/dev/shm is not a volume in memory')
        if kind != 'Worker':
            wants.that('--resume auto' in ' '.join(map(str, container.get('args', []))), 'no --resume auto: a second start would not go on')
            wants.that('command' not in container, 'a command in place of the image\'s program')


def of_job(job, wants):
    spec = job['spec']
    wants.value(spec, 'completionMode', 'Indexed')
    wants.value(spec, 'template.spec.restartPolicy', 'Never')
    wants.that('backoffLimitPerIndex' in spec, 'backoffLimitPerIndex is missing, which FailIndex needs')
    rules = get(spec, 'podFailurePolicy.rules', [])
    codes = {code: rule['action'] for rule in rules for code in get(rule, 'onExitCodes.values', [])}
    names = {get(rule, 'onExitCodes.containerName') for rule in rules if 'onExitCodes' in rule}
    wants.that(codes.get(75) == 'Ignore', 'code 75 is not ignored')
    wants.that(codes.get(2) == 'FailIndex', 'code 2 (usage, config) does not end the index')
    wants.that(any(rule['action'] == 'Ignore' and {'type': 'DisruptionTarget', 'status': 'True'} in rule.get('onPodConditions', []) for rule in rules),
               'DisruptionTarget is not ignored')
    pod = spec['template']['spec']
    wants.that(names <= {container['name'] for container in pod['containers']}, f'no container has one of the names {names}')
    of_pod(pod, 'Job', wants)
    for container in pod['containers']:
        wants.value(container, 'securityContext.readOnlyRootFilesystem', True)


def of_mpijob(job, text, wants):
    spec = job['spec']
    wants.value(job, 'apiVersion', 'kubeflow.org/v2beta1')
    wants.value(spec, 'runPolicy.cleanPodPolicy', 'All')
    wants.that(get(spec, 'runPolicy.backoffLimit', 6) >= 100, 'backoffLimit is small: code 75 counts as a failure')
    wants.that('activeDeadlineSeconds' in spec['runPolicy'], 'no activeDeadlineSeconds beside a large backoffLimit')
    wants.value(spec, 'sshAuthMountPath', '/home/cltrain/.ssh')
    wants.that(re.search(r'\bcode 75\b', text), 'what happens after code 75 is not said')
    wants.value(spec, 'mpiReplicaSpecs.Launcher.restartPolicy', 'OnFailure')
    wants.value(spec, 'mpiReplicaSpecs.Launcher.replicas', 1)
    for name, replica in spec['mpiReplicaSpecs'].items():
        of_pod(replica['template']['spec'], name, wants)
    worker = get(spec, 'mpiReplicaSpecs.Worker.template.spec.containers', [{}])[0]
    wants.that('/etc/ssh/sshd_cltrain' in worker.get('command', []), 'the worker does not start the sshd of the image')
    wants.that(get(worker, 'resources.limits', {}).get('nvidia.com/gpu') == spec['slotsPerWorker'], 'a worker has another number of GPUs than slotsPerWorker')


def of_kubernetes(text, wants):
    for document in deploy_read.yaml(text):
        kind = document.get('kind')
        if kind not in TYPES:
            wants.that(False, f'the kind {kind} is not known')
            continue
        wants.found += unknown_fields(document, kind, kind)
        if wants.found:
            return
        if kind == 'Job':
            of_job(document, wants)
        elif kind == 'MPIJob':
            of_mpijob(document, text, wants)


def of_skypilot(text, wants):
    task = deploy_read.yaml(text)[0]
    wants.found += unknown_fields(task, 'Sky', 'task')
    wants.value(task, 'resources.use_spot', True)
    wants.value(task, 'resources.job_recovery.recover_on_exit_codes', [75])
    wants.that(all(mount.get('mode') == 'MOUNT_CACHED' for mount in get(task, 'file_mounts', {}).values()), 'a mount is not MOUNT_CACHED')
    wants.that(get(task, 'file_mounts'), 'nothing is mounted for the run folder')
    wants.that(str(get(task, 'envs.RUN')).startswith(tuple(get(task, 'file_mounts', {}))), 'the run folder is not in the mount')
    wants.that('exec ' in str(task.get('run')), 'a shell stands between SkyPilot and the program')
    wants.that('--resume auto' in str(task.get('run')), 'no --resume auto: a second start would not go on')


def written_files(text):
    return {item['path']: item for item in deploy_read.yaml(text)[0]['write_files']}


def of_cloud_init(text, wants):
    wants.that(text.startswith('#cloud-config\n'), 'the first line is not #cloud-config')
    config = deploy_read.yaml(text)[0]
    wants.found += unknown_fields(config, 'CloudConfig', 'cloud-config')
    wants.that(len(text) <= 12288, 'the file is longer than 12 KiB: clouds take 16')
    for path, item in written_files(text).items():
        mode = item.get('permissions', '0644')
        wants.that(isinstance(mode, str) and re.fullmatch(r'0[0-7]{3}', mode), f'{path}: permissions are a quoted number such as "0755"')
        wants.that(not str(item['content']).startswith('#!') or mode == '0755', f'{path} is a script that cannot be run')
    unit = written_files(text).get('/etc/systemd/system/cltrain.service', {}).get('content', '')
    lines = unit.split('\n')
    for line in ('User=cltrain', 'RestartForceExitStatus=9 10 75', 'SuccessExitStatus=75', 'KillMode=mixed', 'StartLimitAction=poweroff',
                 'ExecStartPre=/usr/local/sbin/cltrain-copy fetch', 'ExecStart=/usr/local/sbin/cltrain-train',
                 'ExecStopPost=-/usr/bin/timeout 100 /usr/local/sbin/cltrain-copy save',
                 'ExecStopPost=+/usr/local/sbin/cltrain-ended'):
        wants.that(line in lines, f'cltrain.service has no line {line}')
    seconds = re.search(r'^TimeoutStopSec=([0-9]+)$', unit, re.M)
    wants.that(seconds and 60 <= int(seconds[1]) < 120, 'TimeoutStopSec leaves no time for a save, or more than a notice does')
    train = written_files(text).get('/usr/local/sbin/cltrain-train', {}).get('content', '')
    wants.that(re.search(r'^exec \./cltrain launch .*--resume auto', train, re.M), 'no --resume auto: a second start would not go on')
    wants.that('hooks.on_save=' in train, 'nothing is copied to the bucket after a checkpoint')
    wants.that('systemctl start --no-block cltrain.service' in config['runcmd'], 'the service is not started')
    wants.that('systemctl poweroff' in str(written_files(text).get('/usr/local/sbin/cltrain-ended')), 'the machine is not switched off at the end')


def of_policy(text, wants):
    try:
        policy = json.loads(text)
    except ValueError as error:
        raise Wrong(f'no JSON: {error}') from error
    allowed = {'s3:ListBucket': 'arn:aws:s3:::BUCKET'}
    allowed.update({'s3:' + name: 'arn:aws:s3:::BUCKET/PREFIX/*' for name in ('GetObject', 'PutObject', 'AbortMultipartUpload', 'ListMultipartUploadParts')})
    seen = set()
    wants.value(policy, 'Version', '2012-10-17')
    for statement in policy.get('Statement', []):
        wants.value(statement, 'Effect', 'Allow')
        actions = statement.get('Action', [])
        for action in [actions] if isinstance(actions, str) else actions:
            seen.add(action)
            wants.that(allowed.get(action) == statement.get('Resource'), f'{action} is allowed on {statement.get("Resource")}')
            wants.that(action != 's3:ListBucket' or get(statement, 'Condition.StringLike') == {'s3:prefix': ['PREFIX/*']}, 'all names of the bucket may be listed')
    wants.that(seen >= set(allowed), f'these actions are missing: {sorted(set(allowed) - seen)}')


def of_terraform(folder, name, wants):
    place = os.path.join(folder, os.path.dirname(name))
    parts = {part: deploy_read.terraform(read(os.path.join(place, part))) for part in ('main.tf', 'variables.tf', 'outputs.tf')}
    blocks = {block: body for part in parts.values() for block, body in part.items()}
    for block, body in blocks.items():
        word, *more = block.split()
        kind = 'Terraform' if word == 'terraform' else word if word in ('variable', 'output') else more[0]
        if kind not in TYPES:
            wants.that(False, f'{block}: not a kind that is used here')
        else:
            wants.found += unknown_fields(body, kind, block)
    text = ''.join(read(os.path.join(place, part)) for part in parts)
    used, given = set(re.findall(r'\bvar\.(\w+)', text)), {block.split()[1] for block in blocks if block.startswith('variable ')}
    wants.that(used == given, f'variables that are used or declared, not both: {sorted(used ^ given)}')
    for kind, label in set(re.findall(r'\b((?:aws|google)_\w+)\.(\w+)\.', text)):
        wants.that(f'resource {kind} {label}' in blocks or f'data {kind} {label}' in blocks, f'nothing has the name {kind}.{label}')
    wants.that('user-data' in text or 'user_data ' in text, 'the machine gets no user data')
    if not os.path.dirname(name).endswith('aws'):
        return of_gcp(blocks, wants)
    machine = blocks.get('resource aws_instance machine', {})
    for path, value in (('metadata_options.http_tokens', '"required"'), ('metadata_options.http_put_response_hop_limit', '2'),
                        ('root_block_device.encrypted', 'true'), ('instance_initiated_shutdown_behavior', '"terminate"'),
                        ('instance_market_options.market_type', '"spot"'), ('instance_market_options.spot_options.spot_instance_type', '"one-time"'),
                        ('iam_instance_profile', 'aws_iam_instance_profile.machine.name'), ('user_data_replace_on_change', 'true')):
        wants.value(machine, path, value)
    wants.value(blocks, 'provider aws.default_tags.tags', 'var.tags')
    policy = get(blocks, 'resource aws_iam_role_policy store.policy', '')
    wants.that('aws-policy.json' in policy and '"BUCKET", var.bucket' in policy and '"PREFIX", var.prefix' in policy, 'the role has another policy than aws-policy.json')
    wants.that('ingress' not in get(blocks, 'resource aws_security_group machine', {}), 'the security group lets something in')


def of_gcp(blocks, wants):
    machine = blocks.get('resource google_compute_instance machine', {})
    for path, value in (('scheduling.provisioning_model', '"SPOT"'), ('scheduling.preemptible', 'true'), ('scheduling.automatic_restart', 'false'),
                        ('scheduling.on_host_maintenance', '"TERMINATE"'), ('scheduling.instance_termination_action', '"DELETE"'),
                        ('service_account.scopes', '["https://www.googleapis.com/auth/devstorage.read_write"]')):
        wants.value(machine, path, value)
    wants.that('access_config' not in machine.get('network_interface', {}), 'the machine has a public address')
    wants.that('kms_key_self_link' in machine.get('boot_disk', {}), 'no key for the disk can be chosen')
    wants.that('block-project-ssh-keys = "TRUE"' in re.sub(' +', ' ', machine.get('metadata', '')), 'keys of the project may log in')
    rule = get(blocks, 'resource google_storage_bucket_iam_member store.condition.expression', '')
    wants.that('/objects/${var.prefix}/' in rule and "objectListPrefix', '').startsWith('${var.prefix}/')" in rule, 'the machine may use all of the bucket')
    wants.value(blocks, 'resource google_storage_bucket_iam_member store.role', '"roles/storage.objectUser"')
    wants.value(blocks, 'resource google_compute_network machine.auto_create_subnetworks', 'false')
    wants.that(not any('firewall' in block for block in blocks), 'a firewall rule lets something in')


def of_sbatch(text, wants):
    for line in ('#SBATCH --requeue', '#SBATCH --open-mode=append'):
        wants.that(line in text.split('\n'), f'no line {line}')
    wants.that(re.search(r'^#SBATCH --signal=USR2@[1-9][0-9]{2,}$', text, re.M), 'no signal at least 100 seconds before the end')
    wants.that(re.search(r'^75\)', text, re.M) and 'scontrol requeue "$SLURM_JOB_ID"' in text, 'code 75 is not followed by scontrol requeue')
    wants.that('--resume auto' in text, 'no --resume auto: a second start would not go on')


def of_any(text, wants):
    secret = re.search(r'AKIA[0-9A-Z]{16}|-----BEGIN [A-Z ]*PRIVATE KEY|(?i:secret_access_key|password|auth_token)\w*["\']?\s*[:=]\s*["\']?[\w/+-]{8,}', text)
    wants.that(not secret, 'the file holds a secret')
    wants.that(not re.search(r':latest\b', text), 'the tag latest: every start may be another program')
    wants.that('SPDX-License-Identifier: Apache-2.0' in text or text.startswith('{'), 'no line names the licence')


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def check(folder, name):
    wants = Wants()
    text = read(os.path.join(folder, name))
    of_any(text, wants)
    try:
        if name == 'Dockerfile':
            of_dockerfile(text, wants)
        elif name.startswith('kubernetes/'):
            of_kubernetes(text, wants)
        elif name == 'skypilot.yaml':
            of_skypilot(text, wants)
        elif name == 'cloud-init.yaml':
            of_cloud_init(text, wants)
        elif name == 'aws-policy.json':
            of_policy(text, wants)
        elif name.endswith('.tf'):
            of_terraform(folder, name, wants)
        elif name == 'slurm.sbatch':
            of_sbatch(text, wants)
    except Wrong as error:
        wants.that(False, str(error))
    return [f'{name}: {text}' for text in wants.found]


def main(folder, *arguments):
    if arguments[0] == '--files':
        for path, item in written_files(read(os.path.join(folder, arguments[1]))).items():
            with open(os.path.join(arguments[2], os.path.basename(path)), 'w', encoding='utf-8') as file:
                file.write(item['content'])
        return 0
    if arguments[0] == '--commands':
        for command in deploy_read.commands(arguments[1], read(os.path.join(folder, arguments[1]))):
            print(shlex.join(command))
        return 0
    complaints = [text for name in arguments for text in check(folder, name)]
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


sys.exit(main(*sys.argv[1:]))
