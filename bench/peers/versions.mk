# The other tools that `make bench-peers` measures beside Tugtool, pinned.
PEERS_NPM := backlog.md@1.52.0 @zeeg/dex@0.16.0 task-master-ai@0.43.1
PEERS_PYPI := taskmd==1.3.0 huey==3.5.4 litequeue==0.9 persist-queue==1.1.0
