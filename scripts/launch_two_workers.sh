#!/usr/bin/env bash
# How a project's own script trains on two local workers and acts on the result.
# usage: scripts/launch_two_workers.sh TRAIN.py [ARG ...]
set -uo pipefail

logs=$(mktemp -d)
tfdist run -n 2 --timeout 600 --log-dir "$logs" --no-tee "$@"
code=$?

case $code in
    0) echo "trained; the chief's output is in $logs/attempt_0/rank_0/stdout.log" ;;
    2) echo "called wrongly; nothing was started" ;;
    124) echo "a time limit was over; see $logs" ;;
    42) echo "preempted; the same command again goes on" ;;
    130) echo "interrupted" ;;
    *) echo "a worker failed with exit code $code; its error is in $logs/attempt_0/rank_*/error.json" ;;
esac
exit $code
