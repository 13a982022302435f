# SPDX-License-Identifier: Apache-2.0
"""Tries deploy/aws-policy.json on moto, which simulates S3 and IAM and checks rights by resource (it does not look at conditions): what
`aws s3 sync` and cltrain do below the prefix passes; without each of the actions something of it is refused; nothing else is allowed.

usage: policy_check.py POLICY       needs moto with its server, and boto3: test_deploy.sh runs it where CLTRAIN_DEPLOY_TOOLS has them"""
import json
import logging
import os
import sys

COUNT = 60  # requests before rights are checked: bucket, users, policies
os.environ['INITIAL_NO_AUTH_ACTION_COUNT'] = str(COUNT)
import boto3  # noqa: E402
from botocore.exceptions import ClientError  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402

PREFIX, OUTSIDE = 'cltrain/first', 'cltrain/other'


def client(service, address, key='root', secret='root'):
    return boto3.client(service, endpoint_url=address, region_name='us-east-1', aws_access_key_id=key, aws_secret_access_key=secret)


def life(s3, prefix):
    """Every kind of request of a run; the names of those that were refused."""
    part = b'x' * (5 << 20)
    key = prefix + '/results/run/checkpoints/step_10/model.safetensors'
    refused = []

    def attempt(name, **words):
        try:
            return getattr(s3, name)(Bucket='models', **words)
        except ClientError as error:
            if error.response['ResponseMetadata']['HTTPStatusCode'] != 403:
                raise
            refused.append(name)
            return {}

    attempt('list_objects_v2', Prefix=prefix + '/results/')
    attempt('get_object', Key=prefix + '/cltrain.tar.gz')
    attempt('head_object', Key=prefix + '/cltrain.tar.gz')
    attempt('put_object', Key=key, Body=b'weights')
    upload = attempt('create_multipart_upload', Key=key).get('UploadId', 'none')
    if upload != 'none':
        tag = attempt('upload_part', Key=key, UploadId=upload, PartNumber=1, Body=part).get('ETag', '')
        attempt('list_parts', Key=key, UploadId=upload)
        attempt('complete_multipart_upload', Key=key, UploadId=upload, MultipartUpload={'Parts': [{'ETag': tag, 'PartNumber': 1}]})
        upload = attempt('create_multipart_upload', Key=key)['UploadId']
        attempt('abort_multipart_upload', Key=key, UploadId=upload)
    return refused


def statements(text):
    """The policy, and the policy without each of its actions: (action that is missing, policy)."""
    policy = json.loads(text.replace('BUCKET', 'models').replace('PREFIX', PREFIX))
    for statement in policy['Statement']:
        if isinstance(statement['Action'], str):
            statement['Action'] = [statement['Action']]
    found = [('', policy)]
    for number, statement in enumerate(policy['Statement']):
        for action in statement['Action']:
            less = json.loads(json.dumps(policy))
            less['Statement'][number]['Action'].remove(action)
            less['Statement'] = [s for s in less['Statement'] if s['Action']]
            found.append((action, less))
    return found


def main(path):
    with open(path, encoding='utf-8') as file:
        policies = statements(file.read())
    logging.getLogger('werkzeug').setLevel(logging.ERROR)
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    address = 'http://127.0.0.1:%d' % server.get_host_and_port()[1]
    iam, s3, users, keys = client('iam', address), client('s3', address), [], []
    s3.create_bucket(Bucket='models')
    for folder in (PREFIX, OUTSIDE):
        s3.put_object(Bucket='models', Key=folder + '/cltrain.tar.gz', Body=b'program')
    for number, (missing, policy) in enumerate(policies):
        name = f'machine{number}'
        iam.create_user(UserName=name)
        iam.put_user_policy(UserName=name, PolicyName='one-prefix', PolicyDocument=json.dumps(policy))
        key = iam.create_access_key(UserName=name)['AccessKey']
        keys.append((key['AccessKeyId'], key['SecretAccessKey']))
        users.append((missing, client('s3', address, *keys[-1])))
    for _ in range(COUNT - 3 - 3 * len(policies)):
        s3.list_buckets()
    wrong = []
    for missing, user in users:
        refused = life(user, PREFIX)
        print(f'without {missing}: refused {refused}' if missing else f'the whole policy: refused {refused}')
        if bool(missing) != bool(refused):
            wrong.append(missing or 'the whole policy')
    machine = users[0][1]
    outside = set(life(machine, OUTSIDE)) - {'list_objects_v2'}  # which is refused by a condition
    if outside != {'get_object', 'head_object', 'put_object', 'create_multipart_upload'}:
        wrong.append(f'outside of the prefix only {sorted(outside)} was refused')
    for what, call in (('delete_object', lambda: machine.delete_object(Bucket='models', Key=PREFIX + '/cltrain.tar.gz')),
                       ('list_buckets', machine.list_buckets), ('delete_bucket', lambda: machine.delete_bucket(Bucket='models')),
                       ('create_user', lambda: client('iam', address, *keys[0]).create_user(UserName='x'))):
        try:
            call()
            wrong.append(f'{what} is allowed')
        except ClientError as error:
            if error.response['ResponseMetadata']['HTTPStatusCode'] != 403:
                raise
    server.stop()
    print(f'{len(users) - 1} actions, outside of the prefix and 4 other requests: ' + (f'wrong: {wrong}' if wrong else 'as wanted'))
    return 1 if wrong else 0


sys.exit(main(sys.argv[1]))
