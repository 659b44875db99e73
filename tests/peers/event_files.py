#!/usr/bin/env python3
"""Event files, read by the real TensorBoard. usage: event_files.py SPOOL_EVENTS_PEER, the program of tests/programs/events_peer.cpp"""
import glob
import subprocess
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def read(folder):
    events = EventAccumulator(folder, size_guidance={'scalars': 0, 'tensors': 0, 'images': 0})
    events.Reload()
    return events


def main():
    folder = tempfile.TemporaryDirectory()
    subprocess.run([sys.argv[1], folder.name], check=True)
    train, validation = read(folder.name + '/train'), read(folder.name + '/validation')
    steps = [s.step for s in train.Scalars('step/loss')]
    assert steps == list(range(1, 13)), steps  # 8 steps, then resumed at 8: none twice
    assert {'loss', 'accuracy', 'step/lr', 'step/grad_norm'} <= set(train.Tags()['scalars']), train.Tags()
    assert [s.step for s in validation.Scalars('loss')] == [6, 12]
    assert all(abs(s.value - 0.01) < 1e-9 for s in train.Scalars('step/lr'))
    assert train.Scalars('loss')[0].wall_time > 1.7e9
    assert b'SmallNet' in train.Tensors('model')[0].tensor_proto.string_val[0]

    odd = read(folder.name + '/odd')
    assert [(s.step, s.value) for s in odd.Scalars('a/b é')] == [(0, 1.5), (7, -2.0), (2**40, 0.25)]
    image = odd.Images('picture')[0]
    assert (image.width, image.height) == (2, 1) and image.encoded_image_string[:4] == b'\x89PNG', image

    # A file that a killed process left: cut in its last record, or ending in zeros.
    path = glob.glob(folder.name + '/odd/events*')[0]
    whole = open(path, 'rb').read()
    for damaged in (whole[:-3], whole + bytes(64)):
        with open(path, 'wb') as f:
            f.write(damaged)
        assert len(read(folder.name + '/odd').Scalars('a/b é')) == 3, len(damaged)
    print('TensorBoard reads', sorted(train.Tags()['scalars']), 'and', sorted(odd.Tags()['scalars']))


if __name__ == '__main__':
    main()
