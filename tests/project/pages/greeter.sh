# A repository with the tutorial's plan, committed.
git init --quiet --initial-branch=main
tugcode init
cp "$PAGES/greeter.md" .tugtool/tugplan-greeter.md
git add .tugtool
git commit --quiet --message 'plan: greet people'
